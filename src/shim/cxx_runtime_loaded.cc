// SPDX-License-Identifier: Apache-2.0
// In a shared library: a C program does not load libstdc++ for us, so it is looked up when needed.
#include "runtime/dynamic_symbol.h"
#include "shim/cxx_runtime.h"

namespace llamalloc {

NewHandler (*new_handler_getter())() {
  return first_function<NewHandler()>("_ZSt15get_new_handlerv");
}

void (*bad_alloc_thrower())() {
  return first_function<void()>("_ZSt17__throw_bad_allocv");
}

}  // namespace llamalloc
