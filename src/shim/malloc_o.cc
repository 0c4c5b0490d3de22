// SPDX-License-Identifier: Apache-2.0
// The static library only: an early start, and the other names that glibc's malloc.o defines
// (API_STATIC of contracts/api.def). With all of them here, no reference pulls that object in, and
// nothing is defined twice.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/fork.h"
#include "shim/call_site.h"

namespace {

// Before the constructors of all libraries, which may register fork handlers.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const register_early)() = llamalloc::register_fork_handlers;

}  // namespace

extern "C" {

extern void* __dso_handle;
int __register_atfork(llamalloc::ForkHandler*, llamalloc::ForkHandler*, llamalloc::ForkHandler*,
                      void*);

// Called by what is linked with us; also by an entry of .preinit_array that stands before ours.
LLAMALLOC_EXPORT int pthread_atfork(llamalloc::ForkHandler* prepare, llamalloc::ForkHandler* parent,
                                    llamalloc::ForkHandler* child) {
  llamalloc::register_fork_handlers();
  return __register_atfork(prepare, parent, child, &__dso_handle);
}

LLAMALLOC_EXPORT void* __malloc(size_t n) {
  return malloc(n);
}
LLAMALLOC_EXPORT void __free(void* p) {
  free(p);
}
LLAMALLOC_EXPORT void* __calloc(size_t n, size_t size) {
  return calloc(n, size);
}
LLAMALLOC_EXPORT void* __realloc(void* p, size_t n) {
  return realloc(p, n);
}
LLAMALLOC_EXPORT void* __memalign(size_t alignment, size_t n) {
  return memalign(alignment, n);
}
LLAMALLOC_EXPORT void* __valloc(size_t n) {
  return valloc(n);
}
LLAMALLOC_EXPORT void* __pvalloc(size_t n) {
  return pvalloc(n);
}
LLAMALLOC_EXPORT size_t __malloc_usable_size(void* p) {
  return malloc_usable_size(p);
}
LLAMALLOC_EXPORT int __malloc_trim(size_t pad) {
  return malloc_trim(pad);
}
LLAMALLOC_EXPORT void __malloc_stats(void) {
  malloc_stats();
}
LLAMALLOC_EXPORT int __malloc_info(int options, FILE* out) {
  return malloc_info(options, out);
}
LLAMALLOC_EXPORT struct mallinfo2 __mallinfo2(void) {
  return mallinfo2();
}
LLAMALLOC_EXPORT struct mallinfo2 __libc_mallinfo2(void) {
  return mallinfo2();
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
LLAMALLOC_EXPORT struct mallinfo __mallinfo(void) {
  return mallinfo();
}
LLAMALLOC_EXPORT struct mallinfo __libc_mallinfo(void) {
  return mallinfo();
}
#pragma GCC diagnostic pop
LLAMALLOC_EXPORT int __mallopt(int parameter, int value) {
  return mallopt(parameter, value);
}
LLAMALLOC_EXPORT int __libc_mallopt(int parameter, int value) {
  return mallopt(parameter, value);
}

// Our own handlers and keys see to forks and to threads that end.
LLAMALLOC_EXPORT void __malloc_arena_thread_freeres(void) {}
LLAMALLOC_EXPORT void __malloc_fork_lock_parent(void) {}
LLAMALLOC_EXPORT void __malloc_fork_unlock_parent(void) {}
LLAMALLOC_EXPORT void __malloc_fork_unlock_child(void) {}

}  // extern "C"
