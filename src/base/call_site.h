// SPDX-License-Identifier: Apache-2.0
// Where an allocation was asked for: the address it returns to, and the stack pointer after that.
#pragma once

#include <cstdint>

namespace llamalloc {

struct CallSite {
  uintptr_t return_address;
  uintptr_t stack_pointer;
};

}  // namespace llamalloc
