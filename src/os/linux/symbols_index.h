// SPDX-License-Identifier: Apache-2.0
// The functions of a symbol table by address. Their names stay in the file: the strings of one
// large C++ library take 175 MB. Twelve bytes a function, in a mapping of its own.
#pragma once

#include "os/linux/elf_file.h"
#include "os/pages.h"

namespace llamalloc {

// Whether the symbol is a function of this file that has a size and may have a name. strings: the
// bytes of the table's strings.
bool is_function(const Elf64_Sym& symbol, uint64_t strings);
// Of several functions around a place, that of the lowest rank comes first.
uint32_t binding_rank(const Elf64_Sym& symbol);

class SymbolIndex {
 public:
  // False: no memory. The index is then empty, and so it is where bytes cannot be read. Functions
  // that begin 4 GiB above the first one are left out.
  bool build(const ByteSource& bytes, const SymbolExtents& table, PageSource& system);
  // Gives the memory back.
  void clear(PageSource& system);
  // Where the same bytes hold the name of the function around an address of the file, without its
  // version (`@`). Of several, by contracts/stack_tokens.md. Of size 0 where there is none.
  FileExtent name_at(const ByteSource& bytes, uint64_t address) const;

  bool is_empty() const { return count_ == 0; }
  bool is_consistent() const;

 private:
  struct Row {
    uint32_t start;      // above low_
    uint32_t rank : 2;   // of its binding
    uint32_t size : 30;  // bytes, cut to what fits
    uint32_t name;       // offset in strings_
  };
  static bool before(const Row& a, const Row& b);
  FileExtent name_of(const ByteSource& bytes, const Row& row) const;
  FileExtent first_name(const ByteSource& bytes, Row* from, const Row* to, uint32_t at) const;
  size_t mapped_bytes() const;

  Row* rows_ = nullptr;
  uint32_t count_ = 0;
  uint32_t room_ = 0;  // rows
  uint64_t low_ = 0;   // value of the first function
  FileExtent strings_;
};

}  // namespace llamalloc
