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

ByteRange part(ByteRange bytes, FileExtent extent) {
  CHECK_LE(extent.offset, bytes.size);
  CHECK_LE(extent.size, bytes.size - extent.offset);
  return {bytes.data + extent.offset, extent.size};
}

void read_table(ByteRange bytes, const ElfFile& file, uint32_t type, FuzzPages& system) {
  SymbolExtents extents;
  if (!file.find_symbols(type, &extents)) return;
  const SymbolTable table(part(bytes, extents.symbols), part(bytes, extents.strings));
  SymbolIndex index;
  if (!index.build(table, system)) return;
  CHECK(index.is_consistent());
  for (uint32_t i = 0; i < table.count() && i < 2000; ++i) {
    CHECK_EQ(zeroes(table.name(i)), size_t{0});
    if (!table.is_function(i)) continue;
    const Elf64_Sym symbol = table.symbol(i);
    CHECK_LT(size_t{0}, index.name_at(symbol.st_value).size);
    index.name_at(symbol.st_value + symbol.st_size);
  }
}

void run(ByteRange range, FuzzPages& system) {
  const MemoryBytes bytes(range);
  const ElfFile file(bytes);
  file.build_id();
  find_build_id(bytes, {0, bytes.size()}, 4);
  find_build_id(bytes, {0, bytes.size()}, 8);
  Elf64_Phdr headers[3]{};
  file.has_program_headers(headers, 3);
  read_table(range, file, SHT_SYMTAB, system);
  read_table(range, file, SHT_DYNSYM, system);
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages system;
  system.reset();
  llamalloc::run({data, size}, system);
  return 0;
}
