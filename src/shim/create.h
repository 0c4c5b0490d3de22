// SPDX-License-Identifier: Apache-2.0
// What operator new is beyond malloc: the new-handler and bad_alloc. libstdc++ is not linked.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "runtime/allocator.h"
#include "shim/cxx_runtime.h"

namespace llamalloc {

inline constexpr size_t kDefaultAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

// A new-handler may throw, which only the C++ library can catch. False: it has no `new` for that.
[[gnu::cold]] inline bool retry_quietly(size_t size, size_t alignment, void** out) {
  static constexpr std::nothrow_t kQuiet{};
  if (alignment > kDefaultAlignment) {
    QuietAlignedNew* quiet = quiet_aligned_new();
    if (quiet != nullptr) *out = quiet(size, std::align_val_t{alignment}, kQuiet);
    return quiet != nullptr;
  }
  QuietNew* quiet = quiet_new();
  if (quiet != nullptr) *out = quiet(size, kQuiet);
  return quiet != nullptr;
}

// Calls the new-handler until it helps; throws bad_alloc, or gives up, when there is none.
[[gnu::cold]] inline void* retry(size_t size, size_t alignment, CallSite site, bool may_throw) {
  auto* get_handler = new_handler_getter();
  if (!may_throw && (get_handler == nullptr || get_handler() == nullptr)) return nullptr;
  if (void* p = nullptr; !may_throw && retry_quietly(size, alignment, &p)) return p;
  while (NewHandler handler = get_handler ? get_handler() : nullptr) {
    handler();
    if (void* p = allocate_aligned(size, alignment, site)) return p;
  }
  if (!may_throw) return nullptr;
  if (auto* throw_bad_alloc = bad_alloc_thrower()) throw_bad_alloc();
  print_line(
      "operator new: out of memory (%zu bytes); aborting, because no C++ library can throw "
      "bad_alloc",
      size);
  abort();
}

template <bool may_throw>
[[gnu::noinline]] void* create_slow(size_t size, CallSite site) {
  void* p = allocate_slow(size, site);
  return LLAMALLOC_LIKELY(p != nullptr) ? p : retry(size, 1, site, may_throw);
}

template <bool may_throw, typename Site>
[[gnu::always_inline]] inline void* create(size_t size, const Site& site) {
  return allocate<create_slow<may_throw>>(size, site);
}

[[gnu::always_inline]] inline void* create(size_t size, std::align_val_t alignment, CallSite site,
                                           bool may_throw) {
  void* p = allocate_aligned(size, static_cast<size_t>(alignment), site);
  return LLAMALLOC_LIKELY(p != nullptr)
             ? p
             : retry(size, static_cast<size_t>(alignment), site, may_throw);
}

}  // namespace llamalloc
