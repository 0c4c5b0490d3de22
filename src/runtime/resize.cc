// SPDX-License-Identifier: Apache-2.0
// The allocations that are more than a size: aligned, zeroed, resized.
#include <cstring>

#include "runtime/allocator.h"
#include "runtime/foreign.h"
#include "runtime/hardened.h"
#include "runtime/misuse.h"

namespace llamalloc {
namespace {

// Shrinking below half of the slot moves the object; above, it stays where it is.
bool fits_in_place(size_t have, size_t want) {
  return want <= have && (want >= have / 2 || have <= 64);
}

void* move_to_new(void* p, size_t old_size, size_t size, CallSite site) {
  const bool grows = grows_as_run(old_size, size);
  void* moved = grows ? allocate_growing(size, site) : allocate(size, site);
  if (moved == nullptr) return nullptr;
  memcpy(moved, p, old_size < size ? old_size : size);
  deallocate(p, site);
  return moved;
}

// Address space far larger than any program's cannot be had; refuse before rounding overflows.
bool is_absurd(size_t size, size_t alignment) {
  return size > kLargestSize || alignment > kLargestSize / 2 || size > kLargestSize - alignment;
}

}  // namespace

size_t usable_size(const void* p) {
  if (p == nullptr) return 0;
  const Span* span = process.heap.find(p);
  if (span == nullptr) return foreign_size(p);
  return is_hardened(span) ? hardened_size(p, span) : span->object_size();
}

namespace {

// The first class that holds the size and whose slots are all so aligned; kSizeClasses: none.
int aligned_class_of(size_t size, size_t alignment) {
  int c = size_class_of(size < alignment ? alignment : size);
  while (c < kSizeClasses && kSizeClassRows[c].size % alignment != 0) ++c;
  return c;
}

}  // namespace

size_t usable_size_of(size_t size, size_t alignment) {
  if (is_absurd(size, alignment)) return 0;
  if (process.hardened) return size;
  if (size <= kSmallMax && alignment <= kBlockSize)
    return kSizeClassRows[aligned_class_of(size, alignment)].size;
  if (size > kRunMax || alignment > kRunMax) return align_up(size == 0 ? 1 : size, kSmallPage);
  return align_up(size < kLeastRun ? kLeastRun : size, kBlockSize);
}

// Spans start at a multiple of the block size, so slots of a size that is a multiple of the
// alignment are aligned.
void* allocate_aligned(size_t size, size_t alignment, CallSite site) {
  if (is_absurd(size, alignment)) return out_of_memory();
  if (alignment <= 16) return allocate(size, site);
  if (LLAMALLOC_UNLIKELY(process.hardened)) {
    void* p =
        size > kLargestSize / 2 ? nullptr : take_hardened(size, alignment, PageGroup::unknown);
    return p ? p : out_of_memory();
  }
  if (alignment <= kBlockSize && size <= kSmallMax) {
    const int c = aligned_class_of(size, alignment);
    if (c < kSizeClasses) return allocate(kSizeClassRows[c].size, site);
  }
  if (alignment <= kBlockSize) return allocate(size, site);
  const size_t least = size == 0 ? 1 : size;  // an address of its own
  Span* span = process.heap.allocate(least, alignment, PageGroup::unknown, false);
  return span ? span->base : out_of_memory();
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
  if (size > kSmallMax && process.heap.find(p)->fresh) return p;
  return memset(p, 0, size);
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

// A sample dies with its age where the system moved it to.
[[gnu::cold, gnu::noinline]] void* resize_sampled(Span* span, size_t size) {
  process.profiler.on_leave(span->base, span);
  void* resized = process.heap.resize(span, size);
  process.profiler.on_arrive(span, span->base);
  if (resized != nullptr) process.profiler.on_resize(resized, size);
  return resized;
}

[[gnu::cold, gnu::noinline]] void* keep_sampled(void* p, size_t size) {
  process.profiler.on_resize(p, size);
  return p;
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
  if (is_hardened(span)) {
    const size_t asked = hardened_size(p, span);
    return asked == size ? p : move_to_new(p, asked, size, site);
  }
  const size_t have = span->object_size();
  if (fits_in_place(have, size)) {
    if (span->kind == SpanKind::slots)
      return LLAMALLOC_UNLIKELY(span->sampled) ? keep_sampled(p, size) : p;
    if (span->fresh && size != have) span->fresh = false;
  }
  if (span->kind != SpanKind::slots) {
    void* resized = LLAMALLOC_UNLIKELY(span->sampled) ? resize_sampled(span, size)
                                                      : process.heap.resize(span, size);
    if (resized != nullptr) return resized;
  }
  return move_to_new(p, have, size, site);
}

}  // namespace llamalloc
