// SPDX-License-Identifier: Apache-2.0
// Whether an address lies in the C library or the dynamic loader: code that may call malloc or free
// while it holds locks of its own.
#pragma once

#include <cstdint>

namespace llamalloc {

// Called once, before is_in_system_library.
void find_system_libraries();
bool is_in_system_library(uintptr_t address);
// The same, but also where it cannot be known: in a program that is linked statically.
bool may_be_in_system_library(uintptr_t address);

}  // namespace llamalloc
