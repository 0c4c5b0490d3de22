// SPDX-License-Identifier: Apache-2.0
#include "runtime/dynamic_symbol.h"

#include <dlfcn.h>

// Absent from a program linked statically.
#pragma weak dlsym

namespace llamalloc {

void* first_symbol(const char* name) {
  return &dlsym != nullptr ? dlsym(RTLD_DEFAULT, name) : nullptr;
}

void* next_symbol(const char* name) {
  return &dlsym != nullptr ? dlsym(RTLD_NEXT, name) : nullptr;
}

}  // namespace llamalloc
