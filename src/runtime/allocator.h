// SPDX-License-Identifier: Apache-2.0
// malloc and free without their names: the fast paths, to be inlined into the shim.
//
// allocate, small, not predicting: one thread-local load, class by table, countdown, lowest set bit
// of the bin's mask, base + slot * size. deallocate: two loads to the span, slot by multiplication,
// its bit into the bin's word or a held word. Neither takes a lock, neither has an atomic
// read-modify-write, neither touches the object. Instruction counts: tests/fast_path_test.py.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "predict/prediction_cache.h"
#include "runtime/process.h"

namespace llamalloc {

#define LLAMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define LLAMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

inline constexpr size_t kLargestSize = PTRDIFF_MAX;

// Null, with ENOMEM.
[[gnu::cold]] void* out_of_memory();

[[gnu::noinline]] void* allocate_slow(size_t size, CallSite site);
[[gnu::noinline]] void* allocate_predicted(ThreadHeap* heap, size_t size, CallSite site);
// A slot whose word the thread has in neither place; most often it can keep it without a lock.
[[gnu::noinline]] void deallocate_other(void* p, Span* span, uint64_t* word, uint64_t bit,
                                        uintptr_t return_address);
[[gnu::noinline]] void deallocate_slow(void* p, Span* span, uint64_t* word, uint64_t bit,
                                       uintptr_t return_address);
[[gnu::noinline, gnu::cold]] void report_bad_free(const void* p, const char* what,
                                                  const Span* span);

// alignment: a power of two. Sizes above PTRDIFF_MAX give null and ENOMEM, as everywhere here.
void* allocate_aligned(size_t size, size_t alignment, CallSite site);
void* allocate_zeroed(size_t size, CallSite site);
void* reallocate(void* p, size_t size, CallSite site);
size_t usable_size(const void* p);

[[gnu::always_inline]] inline void* allocate(size_t size, CallSite site) {
  if (LLAMALLOC_LIKELY(size <= kSmallMax)) {
    ThreadHeap* heap = current_heap;
    const int64_t left =
        heap->countdown.load(std::memory_order_relaxed) - static_cast<int64_t>(size);
    heap->countdown.store(left, std::memory_order_relaxed);
    if (LLAMALLOC_LIKELY(left >= 0)) {
      if (LLAMALLOC_UNLIKELY(heap->predicting)) return allocate_predicted(heap, size, site);
      LocalBin& bin = heap->bins[size_class_of(size)];
      if (LLAMALLOC_LIKELY(bin.mask != 0)) return bin.take();
    }
  }
  return allocate_slow(size, site);
}

[[gnu::always_inline]] inline void deallocate(void* p, uintptr_t return_address) {
  ThreadHeap* heap = current_heap;
  Span* span = process.heap.find(p);
  if (LLAMALLOC_UNLIKELY(span == nullptr)) {
    if (p != nullptr) report_bad_free(p, "not allocated by llamalloc", nullptr);
    return;
  }
  const size_t offset = static_cast<size_t>(static_cast<char*>(p) - span->base);
  const size_t slot = (offset * span->magic) >> kMagicShift;
  if (LLAMALLOC_UNLIKELY(slot * span->slot_size != offset))
    return report_bad_free(p, "not the start of an object", span);
  uint64_t* word = &span->words[slot >> 6];
  const uint64_t bit = uint64_t{1} << (slot & 63);
  LocalBin& bin = heap->bins[span->local_bin];
  HeldWord& held = heap->held[ThreadHeap::held_index(word)];
  uint64_t* mask;
  if (LLAMALLOC_LIKELY(bin.has(span, word)))
    mask = &bin.mask;
  else if (LLAMALLOC_LIKELY(held.word == word))
    mask = &held.mask;
  else
    return deallocate_other(p, span, word, bit, return_address);
  if (LLAMALLOC_UNLIKELY(*mask & bit)) return report_bad_free(p, "freed twice", span);
  *mask |= bit;
}

}  // namespace llamalloc
