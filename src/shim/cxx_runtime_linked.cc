// SPDX-License-Identifier: Apache-2.0
// In a static library: the linker knows. A weak reference does not bring libstdc++ into a C
// program. Its own `new`, which ours hides, is looked up at the start: whoever holds the loader's
// lock later may wait for the thread whose `new` fails.
#include "shim/cxx_runtime.h"

#include "runtime/dynamic_symbol.h"

extern "C" {

__attribute__((weak, visibility("default"))) llamalloc::NewHandler _ZSt15get_new_handlerv();
__attribute__((weak, visibility("default"))) void _ZSt17__throw_bad_allocv();
}

namespace llamalloc {
namespace {

constinit QuietNew* new_quietly = nullptr;
constinit QuietAlignedNew* new_aligned_quietly = nullptr;

[[gnu::constructor(101)]] void look_up() {
  if (&_ZSt15get_new_handlerv == nullptr) return;
  new_quietly = next_function<QuietNew>("_ZnwmRKSt9nothrow_t");
  new_aligned_quietly = next_function<QuietAlignedNew>("_ZnwmSt11align_val_tRKSt9nothrow_t");
}

}  // namespace

NewHandler (*new_handler_getter())() {
  return &_ZSt15get_new_handlerv;
}

void (*bad_alloc_thrower())() {
  return &_ZSt17__throw_bad_allocv;
}

QuietNew* quiet_new() {
  return new_quietly;
}

QuietAlignedNew* quiet_aligned_new() {
  return new_aligned_quietly;
}

}  // namespace llamalloc
