// SPDX-License-Identifier: Apache-2.0
// The fast paths of malloc and free, inlined into the exported functions of the shim.
//
// allocate (small, without predictions): one thread-local load, countdown, table lookup of the size
// class, pop from the magazine. deallocate: two loads to get the span's tag, one multiplication to
// check that the pointer is the start of a slot, push. All other cases take the slow path. Both
// mark the cache as in use (cache_slot.h). Neither takes a lock, executes an atomic
// read-modify-write or touches the object. Instruction counts: tests/fast_path_test.py.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "predict/prediction_cache.h"
#include "runtime/process.h"

namespace llamalloc {

#define LLAMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define LLAMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

// Returns null and sets ENOMEM.
[[gnu::cold]] void* out_of_memory();

[[gnu::noinline]] void* allocate_slow(size_t size, CallSite site);
[[gnu::noinline]] void deallocate_slow(void* p, uintptr_t return_address);
// given: the size passed to a sized delete, checked only here (engine/hardened.h). It is the second
// parameter so that the fast path need not move it to another register.
[[gnu::noinline]] void deallocate_slow(void* p, size_t given, uintptr_t return_address);
[[gnu::noinline, gnu::cold]] void report_bad_free(const void* p, const char* what,
                                                  const Span* span);
[[gnu::cold]] void report_double_free(
    const void* p, const char* what = "freed twice (found when it returned to the heap)");

// alignment: a power of two. Sizes above PTRDIFF_MAX give null and ENOMEM, as everywhere here.
void* allocate_aligned(size_t size, size_t alignment, CallSite site);
void* allocate_zeroed(size_t size, CallSite site);
void* reallocate(void* p, size_t size, CallSite site);
// Any allocation, by the slow path.
void* allocate_whole(const Request& request);
size_t usable_size(const void* p);
// The usable size that such an allocation would have; 0: it would fail.
size_t future_usable_size(size_t size, size_t alignment);
// An allocation with a hint from the program, 0 (cold) to 255 (hot): placement/hint.h.
void* allocate_hinted(size_t size, size_t alignment, uint8_t hotness, CallSite site);

[[gnu::always_inline]] inline void* pop_and_end_call(Magazine* magazine) {
  void* p = magazine->pop();
  cache_slot.end_call();
  return p;
}

// Called last (a tail call), so that the fast path needs no stack frame. Ends the call that the
// fast path began.
using SlowCall = void*(size_t, CallSite);

// The ways by lifetime: each calls the next with nearly the same arguments, so that few need to be
// moved. offset: of the magazine of the size class among those of a group.
//
// Where neither the site nor its callers are known to decide: by the stack's height, too.
[[gnu::noinline]] void* allocate_by_height(size_t size, CallSite site, ThreadCache* cache,
                                           size_t offset, SlowCall* slow);
// Where the site does not decide alone: by its callers, wherever they are in the table.
[[gnu::noinline]] void* allocate_by_path(size_t size, CallSite site, ThreadCache* cache,
                                         size_t offset, SlowCall* slow);
// Where the first slot of the site is another's.
[[gnu::noinline]] void* allocate_beside(size_t size, CallSite site, ThreadCache* cache,
                                        size_t offset, SlowCall* slow);

[[gnu::always_inline]] inline void* pop_or_call(Magazine* magazine, size_t size,
                                                const CallSite& site, SlowCall* slow) {
  if (LLAMALLOC_UNLIKELY(magazine->is_empty())) return slow(size, site);
  return pop_and_end_call(magazine);
}

// place: what was published.
[[gnu::always_inline]] inline void* allocate_in(uint16_t place, size_t size, const CallSite& site,
                                                ThreadCache* cache, size_t offset, SlowCall* slow) {
  return pop_or_call(cache->magazines.at_offset(group_offset_in(place) + offset), size, site, slow);
}

// Where contexts are explored, one allocation in eight, on average, looks whether its own is known.
[[gnu::always_inline]] inline bool explores(const ThreadCache& cache) {
  const auto left = static_cast<uint64_t>(cache.countdown.load(std::memory_order_relaxed));
  return SiteTable::hash(left) >> 61 == 0;
}

// Where the site decides alone, and contexts are explored.
template <SlowCall slow>
[[gnu::noinline]] void* allocate_explored(size_t size, CallSite site, ThreadCache* cache,
                                          size_t offset, uint16_t place) {
  if (LLAMALLOC_UNLIKELY(explores(*cache)))
    return allocate_by_height(size, site, cache, offset, slow);
  return allocate_in(place, size, site, cache, offset, slow);
}

// Where the first caller decides, as it mostly does where the site does not. word: found for the
// site.
template <SlowCall slow>
[[gnu::noinline]] void* allocate_by_caller(size_t size, CallSite site, ThreadCache* cache,
                                           size_t offset, uint16_t word) {
  uint16_t place;
  const PathCache::Kind kind = prediction_cache.decided.find_caller(
      PathCache::path_of(site.return_address), site.stack_pointer,
      cache->own_stack.readable_limit(site.stack_pointer), word, offset, &place);
  if (LLAMALLOC_UNLIKELY(kind != PathCache::Kind::decided)) {
    if (kind != PathCache::Kind::explored) return allocate_by_path(size, site, cache, offset, slow);
    if (explores(*cache)) return allocate_by_height(size, site, cache, offset, slow);
  }
  return allocate_in(place, size, site, cache, offset, slow);
}

template <SlowCall slow>
[[gnu::noinline]] void* allocate_predicted(size_t size, CallSite site, ThreadCache* cache,
                                           size_t offset) {
  uint16_t place;
  bool is_free;
  const PathCache::Kind kind = prediction_cache.decided.find(
      PathCache::path_of(site.return_address), offset, &place, &is_free);
  if (LLAMALLOC_UNLIKELY(kind != PathCache::Kind::decided)) {
    if (is_free) return allocate_by_height(size, site, cache, offset, slow);
    if (kind == PathCache::Kind::explored)
      return allocate_explored<slow>(size, site, cache, offset, place);
    if (kind == PathCache::Kind::ask)
      return allocate_by_caller<slow>(size, site, cache, offset, place);
    return allocate_beside(size, site, cache, offset, slow);
  }
  return allocate_in(place, size, site, cache, offset, slow);
}

template <SlowCall slow, typename Site>
[[gnu::always_inline]] inline void* allocate_of(size_t offset, size_t size, const Site& site) {
  ThreadCache* cache = cache_slot.begin_call();
  const int64_t left =
      cache->countdown.load(std::memory_order_relaxed) - static_cast<int64_t>(size);
  cache->countdown.store(left, std::memory_order_relaxed);
  if (LLAMALLOC_LIKELY(left >= 0)) {
    if (LLAMALLOC_UNLIKELY(cache->predicting))
      return allocate_predicted<slow>(size, site, cache, offset);
    Magazine* magazine = cache->magazines.at_offset(offset);
    if (LLAMALLOC_LIKELY(!magazine->is_empty())) return pop_and_end_call(magazine);
  }
  return slow(size, site);
}

// A separate function, so that sizes in the table do not pay for larger ones.
template <SlowCall slow>
[[gnu::noinline]] void* allocate_beyond_table(size_t size, CallSite site) {
  if (size > kSmallMax) return slow(size, site);
  return allocate_of<slow>(magazine_offset_of(medium_class_of(size)), size, site);
}

template <SlowCall slow = allocate_slow, typename Site>
[[gnu::always_inline]] inline void* allocate(size_t size, const Site& site) {
  if (LLAMALLOC_LIKELY(size <= kTableMax))
    return allocate_of<slow>(table_offset_of(size), size, site);
  return allocate_beyond_table<slow>(size, site);
}

// given: empty, or the size passed to a sized delete.
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
