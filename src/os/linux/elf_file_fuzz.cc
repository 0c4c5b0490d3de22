// SPDX-License-Identifier: Apache-2.0
// Bytes as an ELF file: what a symboliser asks of one stays inside it, and the index of its symbols
// is in order and names what it holds.
#include "os/linux/elf_file.h"

#include "base/check.h"
#include "os/fake/fuzz_pages.h"
#include "os/linux/symbols_index.h"

namespace llamalloc {
namespace {

// Reads every byte, so that a sanitizer sees a range that overruns.
size_t zeroes(ByteRange bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes.size; ++i) n += bytes.data[i] == 0;
  return n;
}

void run(ByteRange bytes, FuzzPages& system) {
  MetadataArena arena(system);
  const ElfFile file(bytes);
  zeroes(file.build_id());
  zeroes(find_build_id(bytes));
  file.has_program_headers(nullptr, 0);
  const SymbolTable table = file.symbols();
  SymbolIndex index;
  if (!index.build(table, arena)) return;
  CHECK(index.is_consistent());
  for (uint32_t i = 0; i < table.count() && i < 2000; ++i) {
    CHECK_EQ(zeroes(table.name(i)), size_t{0});
    if (!table.is_function(i)) continue;
    const Elf64_Sym symbol = table.symbol(i);
    CHECK_LT(size_t{0}, index.name_at(symbol.st_value).size);
    index.name_at(symbol.st_value + symbol.st_size);
  }
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages system;
  system.reset();
  llamalloc::run({data, size}, system);
  return 0;
}
