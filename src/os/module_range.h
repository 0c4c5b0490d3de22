// SPDX-License-Identifier: Apache-2.0
// Whether an address lies in the C library or the dynamic loader: code that may call malloc or free
// while it holds locks of its own.
#pragma once

#include <cstdint>

namespace llamalloc {

// Of code in the C library. Not of a function that programs ask for the address of, or that other
// libraries replace: in a program without PIE such an address lies in the program.
uintptr_t c_library_code();
// Called once, before is_in_system_library.
void find_system_libraries();
bool is_in_system_library(uintptr_t address);
// The same, but also where it cannot be known: in a program that is linked statically.
bool may_be_in_system_library(uintptr_t address);

}  // namespace llamalloc
