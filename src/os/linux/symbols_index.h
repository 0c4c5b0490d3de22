// SPDX-License-Identifier: Apache-2.0
// The functions of a symbol table in the order of contracts/stack_tokens.md: by value, then global
// before weak before local, then name. Four bytes a function, in a mapping of its own.
#pragma once

#include "os/linux/elf_file.h"
#include "os/pages.h"

namespace llamalloc {

class SymbolIndex {
 public:
  // False: no memory; the index is then empty.
  bool build(const SymbolTable& table, PageSource& system);
  // The same table lies elsewhere now; an empty one: nowhere, for the time being.
  void move_to(const SymbolTable& table) { table_ = table; }
  // Gives the memory back.
  void clear(PageSource& system);
  // The name of the function around an address of the file; empty where none is.
  ByteRange name_at(uint64_t address) const;

  size_t bytes() const;
  bool is_consistent() const;

 private:
  bool before(uint32_t a, uint32_t b) const;
  bool holds(uint32_t symbol, uint64_t address) const;

  SymbolTable table_;
  uint32_t* order_ = nullptr;  // numbers of symbols
  uint32_t count_ = 0;
};

}  // namespace llamalloc
