// SPDX-License-Identifier: Apache-2.0
// The C++ allocation operators.
#include "shim/create.h"

#include "shim/call_site.h"

using namespace llamalloc;

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
    deallocate(p, LLAMALLOC_SITE);                      \
  }
LLAMALLOC_DELETE(delete(void* p))
LLAMALLOC_DELETE(delete[] (void* p))
LLAMALLOC_DELETE(delete(void* p, Nothrow))
LLAMALLOC_DELETE(delete[] (void* p, Nothrow))
LLAMALLOC_DELETE(delete(void* p, Align))
LLAMALLOC_DELETE(delete[] (void* p, Align))
LLAMALLOC_DELETE(delete(void* p, Align, Nothrow))
LLAMALLOC_DELETE(delete[] (void* p, Align, Nothrow))

#define LLAMALLOC_SIZED_DELETE(...)                     \
  LLAMALLOC_EXPORT void operator __VA_ARGS__ noexcept { \
    deallocate(p, LLAMALLOC_SITE, n);                   \
  }
LLAMALLOC_SIZED_DELETE(delete(void* p, size_t n))
LLAMALLOC_SIZED_DELETE(delete[] (void* p, size_t n))
LLAMALLOC_SIZED_DELETE(delete(void* p, size_t n, Align))
LLAMALLOC_SIZED_DELETE(delete[] (void* p, size_t n, Align))

LLAMALLOC_WITH_TOKEN(_Znwm)
LLAMALLOC_WITH_TOKEN(_ZnwmRKSt9nothrow_t)
LLAMALLOC_WITH_TOKEN(_ZnwmSt11align_val_t)
LLAMALLOC_WITH_TOKEN(_ZnwmSt11align_val_tRKSt9nothrow_t)
LLAMALLOC_WITH_TOKEN(_Znam)
LLAMALLOC_WITH_TOKEN(_ZnamRKSt9nothrow_t)
LLAMALLOC_WITH_TOKEN(_ZnamSt11align_val_t)
LLAMALLOC_WITH_TOKEN(_ZnamSt11align_val_tRKSt9nothrow_t)
