// SPDX-License-Identifier: Apache-2.0
// Unwind tables of loaded modules (DWARF 5 section 6.4; LSB core 5.0 chapter 10).
//
//   pc --_dl_find_object--> module --.eh_frame_hdr, binary search--> FrameEntry (an FDE with its
//   CIE) --call frame program, run up to pc--> FrameRules: where each register of the caller is
//
// Nothing here trusts an offset: reads stay inside the module's mapping, and every loop consumes
// bytes or halves a range.
#pragma once

#include <link.h>

#include <cstdint>
#include <cstring>

#include "os/unwind.h"

namespace llamalloc {

struct UnwindModule {
  uintptr_t start = 0;
  uintptr_t limit = 0;
  const uint8_t* index = nullptr;  // .eh_frame_hdr
  uint64_t build = 0;              // of this file at any address; see module_build()
  uint64_t identity = 0;           // of this file at this address; see module_identity()

  bool contains(uintptr_t address) const { return address - start < limit - start; }
};

// False where no module with an unwind table covers the address.
bool find_unwind_module(uintptr_t address, UnwindModule* out);
// False, too, where the file has become shorter since it was loaded: to read what is not there ends
// the process. For code that need not run any more, under the loader's lock.
bool find_whole_module(uintptr_t address, UnwindModule* out);
// The same of a module of the loader's list; false: it has no unwind table.
bool find_unwind_module(const dl_phdr_info& info, UnwindModule* out);

// The headers of a module's segments, in its first page or a copy of that, as linkers write them;
// null: it has others. There may be more than the page has room for.
const ElfW(Phdr) * segments_in(const void* page, size_t* count);

// Runs work() while no module can be unmapped: under the loader's lock, which dlclose holds when it
// unmaps and which dl_iterate_phdr holds when it calls back. Not inside malloc.
template <typename Work>
void with_modules_held(Work& work) {
  dl_iterate_phdr(
      [](dl_phdr_info*, size_t, void* argument) {
        (*static_cast<Work*>(argument))();
        return 1;
      },
      &work);
}

// hash_build_id (base/code_key.h) of the module; of the shape of its table if it has no build-id.
uint64_t module_build(const UnwindModule& module);
// The same with its address. So another file mapped at the same address after dlclose has another
// identity.
uint64_t module_identity(const UnwindModule& module);

// One function, or a part of one.
struct FrameEntry {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  const uint8_t* initial = nullptr;  // the CIE's instructions
  const uint8_t* initial_end = nullptr;
  const uint8_t* program = nullptr;  // the FDE's
  const uint8_t* program_end = nullptr;
  uint64_t code_align = 1;
  int64_t data_align = 1;
  uint8_t return_register = 0;
  uint8_t encoding = 0;       // of pointers in the program
  bool signal_frame = false;  // its caller was interrupted, did not call
};
bool find_frame_entry(const UnwindModule& module, uintptr_t address, FrameEntry* out);

// The functions of a module, by address.
class FunctionIndex {
 public:
  explicit FunctionIndex(const UnwindModule& module);

  uint32_t size() const { return count_; }  // 0: the table is of another layout
  // The last one that begins at or below the address; size(): none does.
  uint32_t find(uintptr_t address) const;
  // i < size().
  uintptr_t begin(uint32_t i) const;
  // False: not one that can be read.
  bool entry(uint32_t i, FrameEntry* out) const;

 private:
  const UnwindModule& module_;
  uint32_t count_ = 0;  // before rows_, which sets it
  const uint8_t* rows_;
};

// DWARF register numbers of x86-64.
inline constexpr int kRbx = 3, kRbp = 6, kRsp = 7, kReturnAddress = 16, kFrameRegisters = 17;

enum class RuleKind : uint8_t {
  kSame,             // the caller's value is still there
  kUndefined,        // lost; for the return address: this is the outermost frame
  kOffset,           // in memory at CFA + offset
  kValueOffset,      // is CFA + offset
  kRegister,         // is in register `reg`
  kExpression,       // in memory at the expression's value
  kValueExpression,  // is the expression's value
};
struct Rule {  // all zero: kSame
  RuleKind kind : 8;
  uint8_t reg : 8;
  int64_t offset : 48;  // or the address of an expression: a ULEB length, then that many bytes

  const uint8_t* expression() const { return reinterpret_cast<const uint8_t*>(offset); }
  void set_expression(const uint8_t* at) { offset = reinterpret_cast<intptr_t>(at); }
};
static_assert(sizeof(Rule) == 8);
struct FrameRules {
  Rule cfa;  // kRegister: reg + offset; kValueExpression
  Rule of[kFrameRegisters];
};
// The rules that hold at `address`, begin <= address < end.
bool run_frame_program(const FrameEntry& entry, uintptr_t address, FrameRules* out);

// Values of registers, where bit i of `known` says that of[i] holds one.
struct RegisterFile {
  uint64_t of[kFrameRegisters];
  uint32_t known = 0;
};
[[gnu::always_inline]] inline bool read_stack(const StackWindow& window, uint64_t address,
                                              uint64_t* value) {
  if (address < window.low || address >= window.high || window.high - address < 8) return false;
  memcpy(value, window.image + (address - window.low), sizeof(*value));
  return true;
}
// initial: pushed first, as DWARF asks for register rules (the CFA); null: nothing is pushed.
bool evaluate_expression(const uint8_t* expression, const RegisterFile& registers,
                         const StackWindow& window, const uint64_t* initial, uint64_t* value);

}  // namespace llamalloc
