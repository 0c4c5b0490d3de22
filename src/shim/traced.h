// SPDX-License-Identifier: Apache-2.0
// Included before each source of the recording library: the shim's calls of the allocator go through
// the recorder. The product is compiled without it and pays nothing.
#pragma once

#include "recorder/recorder.h"
#include "runtime/allocator.h"

namespace llamalloc {

inline constexpr size_t kLeastAlignment = 16;

[[gnu::always_inline]] inline void* traced_allocate(size_t size, CallSite site) {
  void* p = allocate(size, site);
  if (p != nullptr) record_allocate(p, size, kLeastAlignment, site.return_address);
  return p;
}

[[gnu::always_inline]] inline void* traced_zeroed(size_t size, CallSite site) {
  void* p = allocate_zeroed(size, site);
  if (p != nullptr) record_allocate(p, size, kLeastAlignment, site.return_address);
  return p;
}

[[gnu::always_inline]] inline void* traced_aligned(size_t size, size_t alignment, CallSite site) {
  void* p = allocate_aligned(size, alignment, site);
  const size_t asked = alignment < kLeastAlignment ? kLeastAlignment : alignment;
  if (p != nullptr) record_allocate(p, size, asked, site.return_address);
  return p;
}

[[gnu::always_inline]] inline void* traced_reallocate(void* p, size_t size, CallSite site) {
  if (p == nullptr) return traced_allocate(size, site);
  record_resize_begin(p);
  void* resized = reallocate(p, size, site);
  if (resized != nullptr)
    record_resize_end(resized, size, site.return_address);
  else
    record_resize_failed(p);
  return resized;
}

[[gnu::always_inline]] inline void traced_deallocate(void* p, uintptr_t return_address) {
  if (p != nullptr) record_free(p);
  deallocate(p, return_address);
}

}  // namespace llamalloc

#define allocate traced_allocate
#define allocate_zeroed traced_zeroed
#define allocate_aligned traced_aligned
#define reallocate traced_reallocate
#define deallocate traced_deallocate
