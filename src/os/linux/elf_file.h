// SPDX-License-Identifier: Apache-2.0
// A 64-bit little-endian ELF file as bytes, read with every offset checked.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

namespace llamalloc {

struct ByteRange {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// The symbols of one table. Names are cut at their version (`@`).
class SymbolTable {
 public:
  SymbolTable() = default;
  SymbolTable(ByteRange symbols, ByteRange strings) : symbols_(symbols), strings_(strings) {}

  uint32_t count() const { return static_cast<uint32_t>(symbols_.size / sizeof(Elf64_Sym)); }
  Elf64_Sym symbol(uint32_t i) const;
  // Empty where the name does not lie in the table.
  ByteRange name(uint32_t i) const;
  // Whether the symbol is a function of this file that has a size and a name.
  bool is_function(uint32_t i) const;

 private:
  ByteRange symbols_;
  ByteRange strings_;
};

class ElfFile {
 public:
  ElfFile() = default;
  explicit ElfFile(ByteRange bytes);  // which must outlive it

  bool ok() const { return bytes_.size != 0; }
  // .symtab if it holds a function, else .dynsym; empty where there is neither.
  SymbolTable symbols() const;
  // Whether the file's program headers are byte for byte these.
  bool has_program_headers(const Elf64_Phdr* headers, size_t count) const;
  // The description of the NT_GNU_BUILD_ID note; empty where there is none.
  ByteRange build_id() const;

 private:
  ByteRange range(uint64_t offset, uint64_t size) const;  // empty where it overruns
  template <typename T>
  bool read(uint64_t offset, T* out) const;
  bool section(uint64_t i, Elf64_Shdr* out) const;
  SymbolTable table_of_type(uint32_t type) const;

  ByteRange bytes_;
  Elf64_Ehdr header_{};
  uint64_t sections_ = 0;
};

// The build-id among notes, empty where there is none.
ByteRange find_build_id(ByteRange notes);

}  // namespace llamalloc
