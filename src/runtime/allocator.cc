// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include <cerrno>

#include "os/module_range.h"
#include "placement/hint.h"
#include "runtime/background.h"
#include "runtime/foreign.h"
#include "runtime/misuse.h"

namespace llamalloc {

constinit ThreadCache empty_cache{};
constinit thread_local CacheSlot cache_slot
    __attribute__((tls_model("initial-exec"))) (&empty_cache);
constinit thread_local ThreadCache* adopted_cache __attribute__((tls_model("initial-exec"))) =
    nullptr;

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

ThreadCache* own_cache() {
  DCHECK(cache_slot.depth.load(std::memory_order_relaxed) != 0);
  return process.own_cache(cache_slot, adopted_cache);
}

namespace {

[[gnu::always_inline]] inline void* allocate_slowly(const Request& request) {
  const SlowPath slow;
  ThreadCache* cache = own_cache();
  start_worker_if_wanted(request.site.return_address);
  void* p = process.allocate(cache, request);
  return LLAMALLOC_LIKELY(p != nullptr) ? p : out_of_memory();
}

[[gnu::noinline]] void* allocate_large_slow(size_t size, CallSite site) {
  return allocate_slowly({.size = size, .site = site});
}

// What was freed last is often what is asked for next. As on the fast path of a small size, the
// empty cache fails the test of the countdown.
[[gnu::noinline]] void* allocate_large(size_t size, CallSite site) {
  if (LLAMALLOC_UNLIKELY(size > kKeptMappingMax)) return allocate_large_slow(size, site);
  ThreadCache* cache = cache_slot.begin_call();
  const int64_t left =
      cache->countdown.load(std::memory_order_relaxed) - static_cast<int64_t>(size);
  const bool placed = cache->predicting && size <= kRunMax;  // a mapping is of no group
  if (LLAMALLOC_LIKELY(left >= 0 && !placed && !process.hardening.is_on())) {
    Span* span = size > kRunMax ? process.heap.take_last_direct(size)
                                : cache->magazines.take_run(process.heap, blocks_of_run(size),
                                                            PageGroup::unknown);
    if (LLAMALLOC_LIKELY(span != nullptr)) {
      cache->countdown.store(left, std::memory_order_relaxed);
      cache_slot.end_call();
      return span->base;
    }
  }
  return allocate_large_slow(size, site);
}

[[gnu::noinline]] void* allocate_small(size_t size, CallSite site) {
  return allocate_slowly({.size = size, .site = site, .counted = true});
}

}  // namespace

void* allocate_slow(size_t size, CallSite site) {
  return size > kSmallMax ? allocate_large(size, site) : allocate_small(size, site);
}

void* allocate_whole(const Request& request) {
  return allocate_slowly(request);
}

// Not worth a fast path of its own: what a compiler marks as cold is seldom allocated.
void* allocate_hinted(size_t size, size_t alignment, uint8_t hotness, CallSite site) {
  if (!is_cold(hotness) || size > kSmallMax) return allocate_aligned(size, alignment, site);
  return allocate_slowly({.size = size, .site = site, .alignment = alignment, .hotness = hotness});
}

namespace {

[[gnu::noinline]] void* allocate_looked_up(size_t size, CallSite site, ThreadCache* cache,
                                           size_t offset, SlowCall* slow) {
  const int size_class = static_cast<int>(offset / sizeof(Magazine));
  const uint64_t key = prediction_cache.context_key(site, cache->own_stack, size_class);
  const Prediction p = prediction_cache.find(key);
  if (LLAMALLOC_UNLIKELY(!p.found)) return slow(size, site);
  return pop_or_call(&cache->magazines.bins[bin_of(p.group, size_class, false)], size, site, slow);
}

}  // namespace

void* allocate_by_path(size_t size, CallSite site, ThreadCache* cache, size_t offset,
                       SlowCall* slow) {
  uint16_t place;
  const PathCache::Kind kind = prediction_cache.decided.find_past(
      PathCache::path_of(site.return_address), site.stack_pointer,
      cache->own_stack.readable_limit(site.stack_pointer), offset, &place);
  if (LLAMALLOC_UNLIKELY(kind != PathCache::Kind::decided)) {
    if (kind != PathCache::Kind::explored || explores(*cache))
      return allocate_by_height(size, site, cache, offset, slow);
  }
  return allocate_in(place, size, site, cache, offset, slow);
}

void* allocate_beside(size_t size, CallSite site, ThreadCache* cache, size_t offset,
                      SlowCall* slow) {
  uint16_t place;
  const PathCache::Kind kind =
      prediction_cache.decided.find_beside(PathCache::path_of(site.return_address), offset, &place);
  if (LLAMALLOC_LIKELY(kind == PathCache::Kind::decided))
    return allocate_in(place, size, site, cache, offset, slow);
  if (kind > PathCache::Kind::explored) return allocate_by_height(size, site, cache, offset, slow);
  return allocate_by_path(size, site, cache, offset, slow);
}

void* allocate_by_height(size_t size, CallSite site, ThreadCache* cache, size_t offset,
                         SlowCall* slow) {
  const int size_class = static_cast<int>(offset / sizeof(Magazine));
  PageGroup group;
  if (LLAMALLOC_UNLIKELY(
          !prediction_cache.find_quickly(site, cache->own_stack.high, size_class, &group)))
    return allocate_looked_up(size, site, cache, offset, slow);
  const size_t at = magazine_offset_of(bin_of(group, 0, false)) + offset;
  return pop_or_call(cache->magazines.at_offset(at), size, site, slow);
}

namespace {

[[gnu::always_inline]] inline void deallocate_slowly(void* p, size_t given,
                                                     uintptr_t return_address) {
  Span* span = process.heap.find(p);
  if (LLAMALLOC_UNLIKELY(span == nullptr)) {
    if (p != nullptr) report_bad_free(p, "not allocated by llamalloc", nullptr);
    return;
  }
  const SlowPath slow;
  if (LLAMALLOC_UNLIKELY(!span->starts_object(p)))
    return report_bad_free(p, "not the start of an object", span);
  // The thread may have ended, and shall not adopt a cache (runtime/thread_exit.h).
  if (LLAMALLOC_UNLIKELY(adopted_cache == nullptr) && may_be_in_system_library(return_address))
    return process.free_without_cache(p, span, given);
  if (process.free(cache_slot, adopted_cache, p, span, given)) return;
  start_worker_if_wanted(return_address);
}

}  // namespace

void deallocate_slow(void* p, uintptr_t return_address) {
  deallocate_slowly(p, kUnknownSize, return_address);
}

void deallocate_slow(void* p, size_t given, uintptr_t return_address) {
  deallocate_slowly(p, given, return_address);
}

void report_double_free(const void* p, const char* what) {
  cache_slot.end_call();
  report_bad_free(p, what, process.heap.find(p));
}

void report_bad_free(const void* p, const char* what, const Span* span) {
  if (span == nullptr && free_foreign(const_cast<void*>(p))) return;
  report_misuse(p, span, "%s", what);
}

}  // namespace llamalloc
