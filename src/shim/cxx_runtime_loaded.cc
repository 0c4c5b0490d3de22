// SPDX-License-Identifier: Apache-2.0
// In a shared library: a C program does not load libstdc++ for us, so it is looked up when needed.
#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

#include "runtime/dynamic_symbol.h"
#include "shim/cxx_runtime.h"

namespace llamalloc {
namespace {

// One that came with a plugin (dlopen without RTLD_GLOBAL) is in no order of lookup that we are
// part of. It stays loaded from then on, which libraries with unique symbols do anyway.
void* plugins_library() {
  static constinit std::atomic<void*> known{nullptr};
  void* library = known.load(std::memory_order_relaxed);
  for (const char* name : {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"})
    if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  known.store(library, std::memory_order_relaxed);
  return library;
}

// found: in the order of lookup.
template <typename F>
F* or_of_plugin(F* found, const char* name) {
  if (found != nullptr) return found;
  void* library = plugins_library();
  return library != nullptr ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

template <typename F>
F* first_or_of_plugin(const char* name) {
  return or_of_plugin(first_function<F>(name), name);
}
template <typename F>
F* next_or_of_plugin(const char* name) {
  return or_of_plugin(next_function<F>(name), name);
}

}  // namespace

NewHandler (*new_handler_getter())() {
  return first_or_of_plugin<NewHandler()>("_ZSt15get_new_handlerv");
}

void (*bad_alloc_thrower())() {
  return first_or_of_plugin<void()>("_ZSt17__throw_bad_allocv");
}

QuietNew* quiet_new() {
  return next_or_of_plugin<QuietNew>("_ZnwmRKSt9nothrow_t");
}

QuietAlignedNew* quiet_aligned_new() {
  return next_or_of_plugin<QuietAlignedNew>("_ZnwmSt11align_val_tRKSt9nothrow_t");
}

}  // namespace llamalloc
