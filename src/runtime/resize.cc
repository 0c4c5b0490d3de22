// SPDX-License-Identifier: Apache-2.0
// The allocations that are more than a size: aligned, zeroed, resized.
#include <algorithm>
#include <cstring>

#include "runtime/allocator.h"
#include "runtime/foreign.h"
#include "runtime/misuse.h"

namespace llamalloc {

size_t usable_size(const void* p) {
  if (p == nullptr) return 0;
  const Span* span = process.heap.find(p);
  if (span == nullptr) return foreign_size(p);
  return process.hardening.is_hardened(span) ? process.hardening.size_of(p, span)
                                             : process.usable_size(p, span);
}

size_t future_usable_size(size_t size, size_t alignment) {
  if (process.hardening.is_on()) return is_absurd(size, alignment) ? 0 : size;
  return usable_size_of(size, alignment);
}

// Most are served by the fast path, as an object of the size whose slots are so aligned.
void* allocate_aligned(size_t size, size_t alignment, CallSite site) {
  if (alignment <= 16) return allocate(size, site);
  const bool plain = alignment <= kBlockSize && !process.hardening.is_on();
  if (is_absurd(size, alignment)) return out_of_memory();
  if (!plain) return allocate_whole({.size = size, .site = site, .alignment = alignment});
  const int c = class_serving(size, alignment);
  return allocate(c < kSizeClasses ? kSizeClassRows[c].size : size, site);
}

namespace {

constexpr size_t kUnit = 16;  // bytes, one store; every slot has as many
constexpr size_t kZeroedInline = 8 * kUnit;

// Up to kZeroedInline bytes: pairs of stores from both ends towards the middle, where they overlap.
[[gnu::always_inline]] inline void* zero_small(void* p, size_t size) {
  char* const start = static_cast<char*>(p);
  char* const end = start + (size < kUnit ? kUnit : size);
  const auto pair = [&](size_t i) {
    __builtin_memset(start + i * kUnit, 0, kUnit);
    __builtin_memset(end - (i + 1) * kUnit, 0, kUnit);
  };
  pair(0);
  if (size <= 2 * kUnit) return p;
  pair(1);
  if (size <= 4 * kUnit) return p;
  pair(2);
  pair(3);
  return p;
}

[[gnu::noinline]] void* allocate_zeroed_slow(size_t size, CallSite site) {
  void* p = allocate(size, site);
  if (p == nullptr) return nullptr;
  if (size <= kSmallMax) return memset(p, 0, size);
  const Span* span = process.heap.find(p);
  const char* const zeroes = span->base + span->used_bytes();  // from there on
  if (p >= zeroes) return p;
  return memset(p, 0, std::min(size, static_cast<size_t>(zeroes - static_cast<char*>(p))));
}

}  // namespace

// The fast path of allocate() again, but only if it goes through: then nothing is left to call.
void* allocate_zeroed(size_t size, CallSite site) {
  if (LLAMALLOC_LIKELY(size <= kZeroedInline)) {
    ThreadCache* cache = cache_slot.begin_call();
    Magazine* magazine = &cache->magazines.bins[table_class_of(size)];
    const int64_t left =
        cache->countdown.load(std::memory_order_relaxed) - static_cast<int64_t>(size);
    if (LLAMALLOC_LIKELY(left >= 0 && !cache->predicting && !magazine->is_empty())) {
      cache->countdown.store(left, std::memory_order_relaxed);
      return zero_small(pop_and_end_call(magazine), size);
    }
  }
  return allocate_zeroed_slow(size, site);
}

namespace {

// Without memory for a smaller object, the larger one serves.
void* move_to_new(void* p, size_t old_size, size_t size, CallSite site) {
  void* moved = may_grow_again(old_size, size)
                    ? allocate_whole({.size = size, .site = site, .grows = true})
                    : allocate(size, site);
  if (moved == nullptr) return size <= old_size ? p : nullptr;
  memcpy(moved, p, old_size < size ? old_size : size);
  deallocate(p, site);
  return moved;
}

}  // namespace

void* reallocate(void* p, size_t size, CallSite site) {
  if (p == nullptr) return allocate(size, site);
  Span* span = process.heap.find(p);
  if (LLAMALLOC_UNLIKELY(span == nullptr || !span->starts_object(p))) {
    if (span == nullptr)
      if (const size_t foreign = foreign_size(p)) return move_to_new(p, foreign, size, site);
    const char* what = span ? "not the start of an object" : "not allocated by llamalloc";
    report_misuse(p, span, "resized, but %s", what);
    return out_of_memory();
  }
  if (size > kLargestSize) return out_of_memory();
  return process.resize(p, span, size,
                        [&](size_t have) { return move_to_new(p, have, size, site); });
}

}  // namespace llamalloc
