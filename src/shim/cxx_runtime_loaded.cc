// SPDX-License-Identifier: Apache-2.0
// In a shared library: a C program does not load libstdc++ for us, so it is looked up by name. At
// the start, as a later lookup waits for the loader's lock: whoever holds that may wait for the
// thread whose `new` fails. Later only where the C++ library came with a plugin of a C program.
#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

#include "runtime/dynamic_symbol.h"
#include "shim/cxx_runtime.h"

namespace llamalloc {
namespace {

// `known` is null until the function was found in a library that stays loaded.
struct Name {
  const char* name;
  void* (*find)(const char* name);
  std::atomic<void*> known{nullptr};
};

constinit Name get_new_handler{"_ZSt15get_new_handlerv", first_symbol};
constinit Name throw_bad_alloc{"_ZSt17__throw_bad_allocv", first_symbol};
constinit Name new_quietly{"_ZnwmRKSt9nothrow_t", next_symbol};
constinit Name new_aligned_quietly{"_ZnwmSt11align_val_tRKSt9nothrow_t", next_symbol};

// What the process loaded at its start is never unloaded. Without the first name there is no C++
// library, and no other name.
[[gnu::constructor(101)]] void look_up() {
  for (Name* name : {&get_new_handler, &throw_bad_alloc, &new_quietly, &new_aligned_quietly}) {
    void* found = name->find(name->name);
    if (found == nullptr && name == &get_new_handler) return;
    name->known.store(found, std::memory_order_relaxed);
  }
}

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

[[gnu::cold, gnu::noinline]] void* look_up_late(Name& name) {
  void* library = plugins_library();
  void* found = library != nullptr ? dlsym(library, name.name) : nullptr;
  if (found == nullptr) return name.find(name.name);
  name.known.store(found, std::memory_order_relaxed);
  return found;
}

template <typename F>
F* function(Name& name) {
  void* known = name.known.load(std::memory_order_relaxed);
  return reinterpret_cast<F*>(known != nullptr ? known : look_up_late(name));
}

}  // namespace

NewHandler (*new_handler_getter())() {
  return function<NewHandler()>(get_new_handler);
}

void (*bad_alloc_thrower())() {
  return function<void()>(throw_bad_alloc);
}

QuietNew* quiet_new() {
  return function<QuietNew>(new_quietly);
}

QuietAlignedNew* quiet_aligned_new() {
  return function<QuietAlignedNew>(new_aligned_quietly);
}

}  // namespace llamalloc
