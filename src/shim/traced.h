// SPDX-License-Identifier: Apache-2.0
// Included before each source of the recording library: the shim's calls of the allocator go
// through the recorder. The product is compiled without it and pays nothing.
#pragma once

#include "recorder/process_life.h"
#include "recorder/recorder.h"
#include "runtime/allocator.h"
#include "runtime/fork.h"

namespace llamalloc {

inline constexpr size_t kLeastAlignment = 16;

// Calls f unless the allocator is calling itself; then nothing is to be recorded of it.
template <typename Function, typename Record>
[[gnu::always_inline]] inline void* traced(Function&& f, Record&& record) {
  if (is_inside) return f();
  void* p;
  {
    const InsideScope inside;
    p = f();
  }
  record(p);
  return p;
}

template <typename Function>
[[gnu::always_inline]] inline void* traced_new(size_t size, size_t alignment, CallSite site,
                                               Function&& f) {
  return traced(f, [&](void* p) {
    if (p != nullptr) record_allocate(p, size, alignment, site.return_address);
  });
}

// slow: as for allocate. Only when there is no memory is slow called, and not as a part
// of the allocator: it calls the program's new-handler, and may throw.
inline void* give_up(size_t, CallSite) {
  return nullptr;
}
template <SlowCall slow = give_up>
[[gnu::always_inline]] inline void* traced_allocate(size_t size, CallSite site) {
  void* p = traced_new(size, kLeastAlignment, site, [&] { return allocate(size, site); });
  return p != nullptr ? p : slow(size, site);
}

[[gnu::always_inline]] inline void* traced_zeroed(size_t size, CallSite site) {
  return traced_new(size, kLeastAlignment, site, [&] { return allocate_zeroed(size, site); });
}

[[gnu::always_inline]] inline void* traced_aligned(size_t size, size_t alignment, CallSite site) {
  const size_t asked = alignment < kLeastAlignment ? kLeastAlignment : alignment;
  return traced_new(size, asked, site, [&] { return allocate_aligned(size, alignment, site); });
}

[[gnu::always_inline]] inline void* traced_hinted(size_t size, size_t alignment, uint8_t hotness,
                                                  CallSite site) {
  const size_t asked = alignment < kLeastAlignment ? kLeastAlignment : alignment;
  return traced_new(size, asked, site,
                    [&] { return allocate_hinted(size, alignment, hotness, site); });
}

[[gnu::always_inline]] inline void* traced_reallocate(void* p, size_t size, CallSite site) {
  if (p == nullptr) return traced_allocate(size, site);
  if (!is_inside) record_resize_begin(p);
  return traced([&] { return reallocate(p, size, site); },
                [&](void* resized) {
                  if (resized != nullptr)
                    record_resize_end(resized, size, site.return_address);
                  else
                    record_resize_failed(p);
                });
}

template <typename... Given>
[[gnu::always_inline]] inline void traced_deallocate(void* p, CallSite site, Given... given) {
  if (p == nullptr) return;
  if (is_inside) return deallocate(p, site, given...);
  record_free(p);
  const InsideScope inside;
  deallocate(p, site, given...);
}

inline void traced_register_fork_handlers() {
  register_fork_handlers();
  register_recorder_fork_handlers();
}

}  // namespace llamalloc

#define register_fork_handlers traced_register_fork_handlers
#define allocate traced_allocate
#define allocate_zeroed traced_zeroed
#define allocate_aligned traced_aligned
#define allocate_hinted traced_hinted
#define reallocate traced_reallocate
#define deallocate traced_deallocate
