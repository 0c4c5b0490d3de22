// SPDX-License-Identifier: Apache-2.0
// malloc and free without their names: the fast paths, to be inlined into the shim.
//
// allocate, small, not predicting: one thread-local load, countdown, class by table, pop of the
// magazine. deallocate: two loads to the span's tag, one multiplication that shows whether the
// pointer is the start of a slot, push; the rest is for the slow path. Both mark the cache as used
// meanwhile (cache_slot.h). Neither takes a lock, has an atomic read-modify-write or touches the
// object. Instruction counts: tests/fast_path_test.py.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "predict/prediction_cache.h"
#include "runtime/process.h"

namespace llamalloc {

#define LLAMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define LLAMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

// Null, with ENOMEM.
[[gnu::cold]] void* out_of_memory();

[[gnu::noinline]] void* allocate_slow(size_t size, CallSite site);
[[gnu::noinline]] void* allocate_predicted(size_t size, CallSite site, ThreadCache* cache,
                                           int size_class);
[[gnu::noinline]] void deallocate_slow(void* p, uintptr_t return_address);
// given: the size that a sized delete named, looked at here only (engine/hardened.h); second, so
// that the fast path need not move it.
[[gnu::noinline]] void deallocate_slow(void* p, size_t given, uintptr_t return_address);
[[gnu::noinline, gnu::cold]] void report_bad_free(const void* p, const char* what,
                                                  const Span* span);
[[gnu::cold]] void report_double_free(
    const void* p, const char* what = "freed twice (found when it returned to the heap)");

// alignment: a power of two. Sizes above PTRDIFF_MAX give null and ENOMEM, as everywhere here.
void* allocate_aligned(size_t size, size_t alignment, CallSite site);
void* allocate_zeroed(size_t size, CallSite site);
void* reallocate(void* p, size_t size, CallSite site);
// An allocation by the slow path, whatever its shape.
void* allocate_whole(const Request& request);
size_t usable_size(const void* p);
// What usable_size would say of such an allocation; 0: it cannot be had.
size_t future_usable_size(size_t size, size_t alignment);
// An allocation with a hint of the program's, 0 (cold) to 255 (hot): policy/hint.h.
void* allocate_hinted(size_t size, size_t alignment, uint8_t hotness, CallSite site);
// What is empty goes back to the system now, but for `keep` bytes.
Released release_memory(size_t keep);

[[gnu::always_inline]] inline void* pop_and_end_call(Magazine* magazine) {
  void* p = magazine->pop();
  cache_slot.end_call();
  return p;
}

// slow, predicted: what is left to do, as the last thing, so that the fast path needs no frame.
// They end the call that the fast path began.
using SlowCall = void*(size_t, CallSite);
using PredictedCall = void*(size_t, CallSite, ThreadCache*, int size_class);

template <SlowCall slow, PredictedCall predicted, typename Site>
[[gnu::always_inline]] inline void* allocate_of(size_t offset, size_t size, const Site& site) {
  ThreadCache* cache = cache_slot.begin_call();
  const int64_t left =
      cache->countdown.load(std::memory_order_relaxed) - static_cast<int64_t>(size);
  cache->countdown.store(left, std::memory_order_relaxed);
  if (LLAMALLOC_LIKELY(left >= 0)) {
    if (LLAMALLOC_UNLIKELY(cache->predicting))
      return predicted(size, site, cache, static_cast<int>(offset / sizeof(Magazine)));
    Magazine* magazine = cache->magazines.at_offset(offset);
    if (LLAMALLOC_LIKELY(!magazine->is_empty())) return pop_and_end_call(magazine);
  }
  return slow(size, site);
}

// Apart, so that the sizes of the table do not pay for those beyond.
template <SlowCall slow, PredictedCall predicted>
[[gnu::noinline]] void* allocate_beyond_table(size_t size, CallSite site) {
  if (size > kSmallMax) return slow(size, site);
  return allocate_of<slow, predicted>(magazine_offset_of(medium_class_of(size)), size, site);
}

template <SlowCall slow = allocate_slow, PredictedCall predicted = allocate_predicted,
          typename Site>
[[gnu::always_inline]] inline void* allocate(size_t size, const Site& site) {
  if (LLAMALLOC_LIKELY(size <= kTableMax))
    return allocate_of<slow, predicted>(table_offset_of(size), size, site);
  return allocate_beyond_table<slow, predicted>(size, site);
}

// given: nothing, or the size that the caller names.
template <typename Site, typename... Given>
[[gnu::always_inline]] inline void deallocate(void* p, const Site& site, Given... given) {
  const SpanMap& map = heap_tables.map;
  SpanTag tag;
  if (LLAMALLOC_UNLIKELY(!map.find_tag(p, &tag) || !map.starts_slot(p, tag)))
    return deallocate_slow(p, given..., static_cast<CallSite>(site).return_address);
  ThreadCache* cache = cache_slot.begin_call();
  Magazine* magazine = cache->magazines.at(tag);
  if (LLAMALLOC_UNLIKELY(magazine->is_full()))
    return deallocate_slow(p, given..., static_cast<CallSite>(site).return_address);
  if (LLAMALLOC_UNLIKELY(magazine->top[-1] == p)) return report_double_free(p, "freed twice");
  magazine->push(p);
  cache_slot.end_call();
}

}  // namespace llamalloc
