// SPDX-License-Identifier: Apache-2.0
// The C++ allocation operators. libstdc++ is not linked: a C program does not load it for us, and a
// C++ program brings it; what a failed `new` needs of it is looked up when it fails.
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "runtime/allocator.h"
#include "shim/call_site.h"

using namespace llamalloc;

namespace {

using NewHandler = void (*)();

template <typename F>
F* find_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// Calls the new-handler until it helps; throws bad_alloc, or gives up, when there is none.
[[gnu::cold]] void* retry(size_t size, size_t alignment, CallSite site, bool may_throw) {
  auto* get_handler = find_function<NewHandler()>("_ZSt15get_new_handlerv");
  while (NewHandler handler = get_handler ? get_handler() : nullptr) {
    handler();
    if (void* p = allocate_aligned(size, alignment, site)) return p;
  }
  if (!may_throw) return nullptr;
  if (auto* throw_bad_alloc = find_function<void()>("_ZSt17__throw_bad_allocv")) throw_bad_alloc();
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

}  // namespace

using Align = std::align_val_t;
using Nothrow = const std::nothrow_t&;

LLAMALLOC_EXPORT void* operator new(size_t n) {
  return create<true>(n, LLAMALLOC_SITE);
}
LLAMALLOC_EXPORT void* operator new[](size_t n) {
  return create<true>(n, LLAMALLOC_SITE);
}
LLAMALLOC_EXPORT void* operator new(size_t n, Nothrow) noexcept {
  return create<false>(n, LLAMALLOC_SITE);
}
LLAMALLOC_EXPORT void* operator new[](size_t n, Nothrow) noexcept {
  return create<false>(n, LLAMALLOC_SITE);
}
LLAMALLOC_EXPORT void* operator new(size_t n, Align a) {
  return create(n, a, LLAMALLOC_SITE, true);
}
LLAMALLOC_EXPORT void* operator new[](size_t n, Align a) {
  return create(n, a, LLAMALLOC_SITE, true);
}
LLAMALLOC_EXPORT void* operator new(size_t n, Align a, Nothrow) noexcept {
  return create(n, a, LLAMALLOC_SITE, false);
}
LLAMALLOC_EXPORT void* operator new[](size_t n, Align a, Nothrow) noexcept {
  return create(n, a, LLAMALLOC_SITE, false);
}

#define LLAMALLOC_DELETE(...)                           \
  LLAMALLOC_EXPORT void operator __VA_ARGS__ noexcept { \
    deallocate(p, LLAMALLOC_RETURN_ADDRESS);            \
  }
LLAMALLOC_DELETE(delete(void* p))
LLAMALLOC_DELETE(delete[] (void* p))
LLAMALLOC_DELETE(delete(void* p, size_t))
LLAMALLOC_DELETE(delete[] (void* p, size_t))
LLAMALLOC_DELETE(delete(void* p, Nothrow))
LLAMALLOC_DELETE(delete[] (void* p, Nothrow))
LLAMALLOC_DELETE(delete(void* p, Align))
LLAMALLOC_DELETE(delete[] (void* p, Align))
LLAMALLOC_DELETE(delete(void* p, size_t, Align))
LLAMALLOC_DELETE(delete[] (void* p, size_t, Align))
LLAMALLOC_DELETE(delete(void* p, Align, Nothrow))
LLAMALLOC_DELETE(delete[] (void* p, Align, Nothrow))
