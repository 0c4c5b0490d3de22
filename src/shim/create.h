// SPDX-License-Identifier: Apache-2.0
// What operator new is beyond malloc: the new-handler and bad_alloc. libstdc++ is not linked.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "runtime/allocator.h"

namespace llamalloc {

using NewHandler = void (*)();

#ifdef LLAMALLOC_STATIC
// Linked into the program: what it brings of libstdc++ is known to the linker.
extern "C" __attribute__((weak)) NewHandler _ZSt15get_new_handlerv();
extern "C" __attribute__((weak)) void _ZSt17__throw_bad_allocv();
inline auto* new_handler_getter() {
  return &_ZSt15get_new_handlerv;
}
inline auto* bad_alloc_thrower() {
  return &_ZSt17__throw_bad_allocv;
}
#else
// A C program does not load libstdc++ for us, and a C++ program brings it: looked up when needed.
inline auto* new_handler_getter() {
  return reinterpret_cast<NewHandler (*)()>(dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv"));
}
inline auto* bad_alloc_thrower() {
  return reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv"));
}
#endif

// Calls the new-handler until it helps; throws bad_alloc, or gives up, when there is none.
[[gnu::cold]] inline void* retry(size_t size, size_t alignment, CallSite site, bool may_throw) {
  auto* get_handler = new_handler_getter();
  while (NewHandler handler = get_handler ? get_handler() : nullptr) {
    handler();
    if (void* p = allocate_aligned(size, alignment, site)) return p;
  }
  if (!may_throw) return nullptr;
  if (auto* throw_bad_alloc = bad_alloc_thrower()) throw_bad_alloc();
  print_line("operator new: out of memory for %zu bytes, and no libstdc++ to throw with", size);
  abort();
}

template <bool may_throw>
[[gnu::noinline]] void* create_slow(size_t size, CallSite site) {
  void* p = allocate_slow(size, site);
  return LLAMALLOC_LIKELY(p != nullptr) ? p : retry(size, 1, site, may_throw);
}

template <bool may_throw>
[[gnu::noinline]] void* create_predicted(ThreadCache* cache, size_t size, CallSite site) {
  void* p = allocate_predicted(cache, size, site);
  return LLAMALLOC_LIKELY(p != nullptr) ? p : retry(size, 1, site, may_throw);
}

template <bool may_throw>
[[gnu::always_inline]] inline void* create(size_t size, CallSite site) {
  return allocate<create_slow<may_throw>, create_predicted<may_throw>>(size, site);
}

[[gnu::always_inline]] inline void* create(size_t size, std::align_val_t alignment, CallSite site,
                                           bool may_throw) {
  void* p = allocate_aligned(size, static_cast<size_t>(alignment), site);
  return LLAMALLOC_LIKELY(p != nullptr)
             ? p
             : retry(size, static_cast<size_t>(alignment), site, may_throw);
}

}  // namespace llamalloc
