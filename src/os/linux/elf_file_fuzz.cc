// SPDX-License-Identifier: Apache-2.0
// Bytes as an ELF file: what a symboliser asks of one stays inside it, and the index of its symbols
// is in order and names what it holds.
#include "os/linux/elf_file.h"

#include <initializer_list>

#include "base/check.h"
#include "os/fake/fuzz_pages.h"
#include "os/linux/symbols_index.h"

namespace llamalloc {
namespace {

void read_table(const ByteSource& bytes, const ElfFile& file, uint32_t type, FuzzPages& system) {
  SymbolExtents table;
  if (!file.find_symbols(type, &table)) return;
  CHECK_LE(table.symbols.offset + table.symbols.size, bytes.size());
  CHECK_LE(table.strings.offset + table.strings.size, bytes.size());
  SymbolIndex index;
  if (!index.build(bytes, table, system)) return;
  CHECK(index.is_consistent());
  for (uint64_t i = 0; i < table.symbols.size / sizeof(Elf64_Sym) && i < 2000; ++i) {
    Elf64_Sym symbol;
    CHECK(bytes.read(table.symbols.offset + i * sizeof(symbol), &symbol, sizeof(symbol)));
    for (const uint64_t address : {symbol.st_value, symbol.st_value + symbol.st_size}) {
      const FileExtent name = index.name_at(bytes, address);
      CHECK(name.size == 0 || name.offset >= table.strings.offset);
      CHECK_LE(name.offset + name.size, table.strings.offset + table.strings.size);
    }
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
  read_table(bytes, file, SHT_SYMTAB, system);
  read_table(bytes, file, SHT_DYNSYM, system);
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages system;
  system.reset();
  llamalloc::run({data, size}, system);
  return 0;
}
