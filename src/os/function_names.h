// SPDX-License-Identifier: Apache-2.0
// The names of all functions of a loaded module, read at once, for who wants to know later what an
// address is called without a file or a lock. By the rules of contracts/stack_tokens.md, and from
// the same files as the symboliser (symbols.h), which names one address at a time.
//
//   module --> its file, if it is the one that was loaded --> .symtab, else .dynsym --> visitor
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/pages.h"

namespace llamalloc {

struct NamedModule {
  uint64_t build;         // hash_build_id (base/code_key.h)
  uintptr_t low_in_file;  // its lowest address, as the file counts it
  const char* file_name;  // without folders
};

// In place: every byte that a frame name does not hold becomes `_`.
inline void make_printable(char* name, size_t length) {
  for (size_t i = 0; i < length; ++i)
    if (name[i] < 0x21 || name[i] > 0x7e) name[i] = '_';
}

// Takes the functions of modules in: of each wants(), room_for(), add() and end().
class FunctionNames {
 public:
  enum class Want : uint8_t {
    nothing,      // the module is passed over
    what_counts,  // functions for which counts() is true, and what covers a part of one
    all,
  };
  virtual Want wants(const NamedModule& module) = 0;
  virtual bool counts(const char* name, size_t length) = 0;
  // At most so many functions follow. False: no memory; none does.
  virtual bool room_for(size_t functions) = 0;
  // begin, end: above the module's lowest address; begins ascend. The name of an address is that of
  // the function around it that begins last; of those that begin there, of the one that came first.
  // name: as a frame name is written, without an end.
  virtual void add(uint32_t begin, uint32_t end, const char* name, size_t length) = 0;
  // read: false: for want of a descriptor or memory it could not be read now.
  virtual void end(bool read) = 0;

 protected:
  ~FunctionNames() = default;
};

// Of each module that is loaded now. Takes the loader's lock: not inside malloc.
void visit_function_names(FunctionNames& visitor, PageSource& system);

// Of the module around a return address on the caller's own stack, which stays. Opens a file, and
// takes no lock.
void visit_function_names_at(uintptr_t return_address, FunctionNames& visitor, PageSource& system);

}  // namespace llamalloc
