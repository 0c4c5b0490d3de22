// SPDX-License-Identifier: Apache-2.0
// LLVM's operators with a hint (__hot_cold_t), and those that return the usable size too.
#include "shim/call_site.h"
#include "shim/create.h"

using namespace llamalloc;

// The compiler calls them by their mangled names, which hold this one: it has to be global.
enum class __hot_cold_t : uint8_t {};

using Align = std::align_val_t;
using Nothrow = const std::nothrow_t&;
using Hint = __hot_cold_t;

namespace {

[[gnu::always_inline]] inline void* create(size_t size, Align alignment, Hint hint, CallSite site,
                                           bool may_throw) {
  const size_t align = static_cast<size_t>(alignment);
  void* p = allocate_hinted(size, align, static_cast<uint8_t>(hint), site);
  return LLAMALLOC_LIKELY(p != nullptr) ? p : retry(size, align, site, may_throw);
}

constexpr Align kPlain{1};
constexpr Hint kHot{255};

struct SizedPointer {
  void* p;
  size_t n;
};

[[gnu::always_inline]] inline SizedPointer with_size(void* p) {
  return {p, usable_size(p)};
}

}  // namespace

#define LLAMALLOC_NEW(may_throw, alignment, ...)                  \
  LLAMALLOC_EXPORT void* operator __VA_ARGS__ {                   \
    return create(n, alignment, hint, LLAMALLOC_SITE, may_throw); \
  }
LLAMALLOC_NEW(true, kPlain, new(size_t n, Hint hint))
LLAMALLOC_NEW(true, kPlain, new[](size_t n, Hint hint))
LLAMALLOC_NEW(false, kPlain, new(size_t n, Nothrow, Hint hint) noexcept)
LLAMALLOC_NEW(false, kPlain, new[](size_t n, Nothrow, Hint hint) noexcept)
LLAMALLOC_NEW(true, a, new(size_t n, Align a, Hint hint))
LLAMALLOC_NEW(true, a, new[](size_t n, Align a, Hint hint))
LLAMALLOC_NEW(false, a, new(size_t n, Align a, Nothrow, Hint hint) noexcept)
LLAMALLOC_NEW(false, a, new[](size_t n, Align a, Nothrow, Hint hint) noexcept)

extern "C" {

LLAMALLOC_EXPORT SizedPointer __size_returning_new(size_t n) {
  return with_size(create(n, kPlain, kHot, LLAMALLOC_SITE, true));
}
LLAMALLOC_EXPORT SizedPointer __size_returning_new_aligned(size_t n, Align a) {
  return with_size(create(n, a, kHot, LLAMALLOC_SITE, true));
}
LLAMALLOC_EXPORT SizedPointer __size_returning_new_hot_cold(size_t n, Hint hint) {
  return with_size(create(n, kPlain, hint, LLAMALLOC_SITE, true));
}
LLAMALLOC_EXPORT SizedPointer __size_returning_new_aligned_hot_cold(size_t n, Align a, Hint hint) {
  return with_size(create(n, a, hint, LLAMALLOC_SITE, true));
}

}  // extern "C"

LLAMALLOC_WITH_TOKEN(_Znwm12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_ZnwmRKSt9nothrow_t12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_ZnwmSt11align_val_t12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_Znam12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_ZnamRKSt9nothrow_t12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_ZnamSt11align_val_t12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t)
LLAMALLOC_WITH_TOKEN(__size_returning_new)
LLAMALLOC_WITH_TOKEN(__size_returning_new_aligned)
LLAMALLOC_WITH_TOKEN(__size_returning_new_hot_cold)
LLAMALLOC_WITH_TOKEN(__size_returning_new_aligned_hot_cold)
