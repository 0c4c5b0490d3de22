// SPDX-License-Identifier: Apache-2.0
// Who called an exported function: to be used in its own body, where both are at hand.
#pragma once

#include <cstdint>

#define LLAMALLOC_EXPORT __attribute__((visibility("default"), used))
#define LLAMALLOC_RETURN_ADDRESS reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define LLAMALLOC_SITE                             \
  (::llamalloc::CallSite{LLAMALLOC_RETURN_ADDRESS, \
                         reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa())})
