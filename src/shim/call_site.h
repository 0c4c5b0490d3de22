// SPDX-License-Identifier: Apache-2.0
// Who called an exported function: to be used in its own body, where both are at hand.
#pragma once

#include <cstdint>

#include "base/call_site.h"

#define LLAMALLOC_EXPORT __attribute__((visibility("default"), used))

namespace llamalloc {

// The call site of the function that it stands in, looked up where it is asked for and not before:
// the fast paths never ask.
struct Here {
  [[gnu::always_inline]] operator CallSite() const {
    return {reinterpret_cast<uintptr_t>(__builtin_return_address(0)),
            reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa())};
  }
};

}  // namespace llamalloc

#define LLAMALLOC_SITE (::llamalloc::Here{})

// The entry point of clang's -fsanitize=alloc-token for a function of the same file: the token is
// one argument more, in a register that nobody reads. In the assembler's words, as the compiler
// holds aliases to the type of what they stand for.
#define LLAMALLOC_WITH_TOKEN(name)                                   \
  asm(".globl __alloc_token_" #name "\n\t.type __alloc_token_" #name \
      ", %function\n\t.set __alloc_token_" #name ", " #name);
