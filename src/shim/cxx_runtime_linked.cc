// SPDX-License-Identifier: Apache-2.0
// In a static library: the linker knows. A weak reference does not bring libstdc++ into a C
// program.
#include "shim/cxx_runtime.h"

#include "runtime/dynamic_symbol.h"

extern "C" {

__attribute__((weak, visibility("default"))) llamalloc::NewHandler _ZSt15get_new_handlerv();
__attribute__((weak, visibility("default"))) void _ZSt17__throw_bad_allocv();
}

namespace llamalloc {

NewHandler (*new_handler_getter())() {
  return &_ZSt15get_new_handlerv;
}

void (*bad_alloc_thrower())() {
  return &_ZSt17__throw_bad_allocv;
}

QuietNew* quiet_new() {
  return next_function<QuietNew>("_ZnwmRKSt9nothrow_t");
}

QuietAlignedNew* quiet_aligned_new() {
  return next_function<QuietAlignedNew>("_ZnwmSt11align_val_tRKSt9nothrow_t");
}

}  // namespace llamalloc
