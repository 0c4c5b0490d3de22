// SPDX-License-Identifier: Apache-2.0
#include "heap/magazines.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace llamalloc {
namespace {

// Up to here a magazine grows whatever it is used for; the part is one of the thread's share.
constexpr size_t kUnaskedBytes = 4096;
constexpr size_t kUnaskedPart = 8;
constexpr size_t kUnaskedSlots = 64;
// Slots larger than this go to their span, not to the depot, when a thread has no magazine for
// them: what lies in the depot keeps spans from becoming free.
constexpr size_t kMostDepositedFirst = 2048;
// In bytes, but for one of a single slot: the share of all threads of a small heap.
constexpr size_t kLargestMagazine = kLeastCached;

size_t capacity_of(int log2) {
  return log2 == 0 ? 0 : (size_t{1} << log2) - 1;
}

// With many threads the share of a thread is so small that nearly each call would need the heap,
// and its locks. So a thread that needs the heap often may cache kBusyBudget, within what
// kMostCached allows.
bool may_cache_more(size_t budget, const Heap& heap, size_t threads) {
  return budget * threads < heap.cache_limit() ||
         (budget < kBusyBudget && budget * threads < kMostCached);
}

// After one more visit to the heap.
size_t next_budget(size_t budget, bool waited, const Heap& heap, size_t threads) {
  const size_t step = !may_cache_more(budget, heap, threads) ? kEarnedStep
                      : waited                               ? kWaitedStep
                                                             : kBudgetStep;
  const size_t next = budget + step;
  if (next <= kLargestBudget && next * threads <= kMostCached) return next;
  if (budget * threads <= kMostCached) return budget;
  return std::max(budget / 2, kFirstBudget);
}

size_t half_of(const Magazine& magazine) {
  return (magazine.capacity() + 1) / 2;
}

// So many at once that the depot has place for them twice.
size_t most_deposited(int bin) {
  return std::max<size_t>(kDepotBytes / 2 / slot_size_of(bin), 1);
}

}  // namespace

void Magazines::initialise() {
  most_log2 = kMagazineLog2Max;
  budget = kFirstBudget;
}

void* Magazines::refill(Heap& heap, MetadataArena& arena, int bin, size_t threads) {
  Magazine& magazine = bins[bin];
  DCHECK(magazine.is_empty());
  groups |= group_bit(bin);
  count_waits();
  if (threads > 1 && magazine.capacity() == 0 && !magazine.ran_dry) {
    magazine.ran_dry = true;
    return heap.take_one(bin, shard());
  }
  magazine.ran_dry = true;
  grow(bin, heap, arena, threads);
  if (is_large(bin)) {
    if (void* slot = heap.take_shelved(shelf_of(heap), bin)) return slot;
    earn(heap, threads);
  }
  if (magazine.capacity() == 0) return heap.take_one(bin, shard());
  const size_t want = half_of(magazine);
  const size_t got = watch(magazine, [&] { return heap.take(bin, magazine.base, want, shard()); });
  if (got == 0) return take_elsewhere(heap, bin);
  if (got < want) memmove(magazine.base, magazine.base + (want - got), got * sizeof(void*));
  magazine.top = magazine.base + got;
  return magazine.pop();
}

// Room on the shelf, each time that it did not help.
void Magazines::earn(Heap& heap, size_t threads) {
  const size_t share = heap.shelf_limit(threads);
  if (is_contended())
    shelf_of(heap).earn(std::max(share, kContendedShelves / threads), Shelf::kEarnedWaiting);
  else
    shelf_of(heap).earn(share);
}

bool Magazines::keep_run(Heap& heap, Span* span, size_t threads) {
  if (span->kind != SpanKind::run || !Heap::may_shelve(*span)) return false;
  heap.hide(span);
  if (span->bytes * threads <= heap.cache_limit()) std::swap(run, span);
  if (span != nullptr) shelve_or_free(heap, span, threads);
  return true;
}

[[gnu::noinline]] void Magazines::shelve_or_free(Heap& heap, Span* span, size_t threads) {
  count_waits();
  if (heap.shelve_run(shelf_of(heap), span)) return;
  earn(heap, threads);
  heap.free_run(span);
}

Span* Magazines::take_kept_run(Heap& heap, Blocks blocks, PageGroup group, uint32_t alignment,
                               size_t threads) {
  const auto address = reinterpret_cast<uintptr_t>(run != nullptr ? run->base : nullptr);
  if (address % (alignment * kBlockSize) == 0)
    if (Span* span = take_run(heap, blocks, group)) return span;
  Span* span = heap.take_shelved(shelf_of(heap), group, blocks, alignment);
  span != nullptr ? heap.show_again(span) : earn(heap, threads);
  return span;
}

// A slot of the same size that this thread freed into another group, or that such a group has free.
[[gnu::cold, gnu::noinline]] void* Magazines::take_elsewhere(Heap& heap, int bin) {
  if (bin < kSizeClasses)
    for (int other = bin + kSizeClasses; other < kLocalBins; other += kSizeClasses)
      if (!bins[other].is_empty()) return bins[other].pop();
  return heap.take_last_resort(bin);
}

void* Magazines::spill(Heap& heap, MetadataArena& arena, int bin, void* slot, size_t threads) {
  Magazine& magazine = bins[bin];
  DCHECK(magazine.is_full());
  groups |= group_bit(bin);
  count_waits();
  const bool first = !magazine.overflowed;
  magazine.overflowed = true;
  const bool may_keep = bypasses == 0 && most_log2 == kMagazineLog2Max;
  const bool may_deposit = threads > 1 && may_keep;
  if (threads > 1 && magazine.capacity() == 0 && slot_size_of(bin) <= kMostDepositedFirst) {
    if (first && may_deposit) return watch(magazine, [&] { return heap.deposit(bin, &slot, 1); });
    if (watch(magazine, [&] { return heap.is_free(bin, slot); })) return slot;
  }
  void* twice = nullptr;
  if (!grow(bin, heap, arena, threads)) {
    if (may_keep && is_large(bin) && shelve(heap, bin, slot, threads, &twice)) return twice;
    if (magazine.capacity() == 0) return heap.give(bin, &slot, 1);
    const size_t half = half_of(magazine);
    const size_t oldest = may_deposit ? std::min(half, most_deposited(bin)) : half;
    twice = watch(magazine, [&] {
      return may_deposit ? heap.deposit(bin, magazine.base, oldest)
                         : heap.give(bin, magazine.base, oldest);
    });
    magazine.top -= oldest;
    memmove(magazine.base, magazine.base + oldest, magazine.held() * sizeof(void*));
  }
  magazine.push(slot);
  return twice;
}

// False: there was no room for the slot. *twice: it was freed already.
bool Magazines::shelve(Heap& heap, int bin, void* slot, size_t threads, void** twice) {
  Shelf& own = shelf_of(heap);
  if (own.holds(bin, slot) || watch(bins[bin], [&] { return heap.is_free(bin, slot); })) {
    *twice = slot;
    return true;
  }
  if (heap.shelve(own, bin, slot)) return true;
  earn(heap, threads);
  return false;
}

bool Magazines::grow(int bin, Heap& heap, MetadataArena& arena, size_t threads) {
  Magazine& magazine = bins[bin];
  const size_t size = slot_size_of(bin);
  budget = next_budget(budget, magazine.waited, heap, threads);
  const size_t have = magazine.capacity();
  const int log2 = magazine.array_log2 + 1;
  const size_t bytes = capacity_of(log2) * size;
  if (log2 > most_log2 || (log2 > 1 && bytes > kLargestMagazine)) return false;
  const size_t added = bytes - have * size;
  if (capacity_bytes + added > budget) return false;
  const bool unasked = have < kUnaskedSlots && have * size < kUnaskedBytes &&
                       have * size * threads * kUnaskedPart < heap.cache_limit();
  if (!unasked && !magazine.waited && !(magazine.ran_dry && magazine.overflowed)) return false;
  void** array = new_array(log2, arena);
  if (array == nullptr) return false;
  const size_t used = magazine.held();
  array[0] = nullptr;
  if (used != 0) memcpy(array + 1, magazine.base, used * sizeof(void*));
  if (have != 0) free_array(magazine.base - 1, magazine.array_log2);
  magazine.base = array + 1;
  magazine.top = magazine.base + used;
  magazine.limit = magazine.base + capacity_of(log2);
  magazine.array_log2 = static_cast<uint8_t>(log2);
  magazine.ran_dry = magazine.overflowed = magazine.waited = false;
  capacity_bytes += added;
  return true;
}

void** Magazines::new_array(int log2, MetadataArena& arena) {
  if (void** array = free_arrays[log2]) {
    free_arrays[log2] = static_cast<void**>(array[0]);
    return array;
  }
  return arena.make_array<void*>(size_t{1} << log2);
}

void Magazines::free_array(void** array, int log2) {
  array[0] = free_arrays[log2];
  free_arrays[log2] = array;
}

void* Magazines::flush(Heap& heap) {
  void* twice = nullptr;
  for_each_needed([&](int b) {
    Magazine& magazine = bins[b];
    if (magazine.is_empty()) return;
    void* bad = heap.give(b, magazine.base, magazine.held());
    if (bad != nullptr) twice = bad;
    magazine.top = magazine.base;
  });
  if (run != nullptr) heap.free_run(run);
  run = nullptr;
  return twice;
}

void Magazines::start_over(uint32_t allowed_bypasses, bool stay_small) {
  for_each_needed([&](int b) {
    Magazine& magazine = bins[b];
    DCHECK(magazine.is_empty());
    if (magazine.array_log2 != 0) free_array(magazine.base - 1, magazine.array_log2);
    magazine = {};
  });
  groups = waits = 0;
  capacity_bytes = 0;
  budget = std::max(budget / 2, kFirstBudget);
  bypasses = allowed_bypasses;
  most_log2 = stay_small ? kSmallLog2 : kMagazineLog2Max;
}

size_t Magazines::cached_bytes() const {
  size_t bytes = 0;
  for_each_needed([&](int b) { bytes += bins[b].held() * slot_size_of(b); });
  return bytes;
}

bool Magazines::is_consistent() const {
  size_t bytes = 0;
  bool good = true;
  for (int b = 0; b < kLocalBins; ++b) {
    const Magazine& magazine = bins[b];
    const bool needed = (groups & group_bit(b)) != 0;
    bytes += magazine.capacity() * slot_size_of(b);
    good &= magazine.base <= magazine.top && magazine.top <= magazine.limit;
    good &= magazine.base == nullptr || magazine.base[-1] == nullptr;
    good &= needed || (magazine.base == nullptr && !magazine.ran_dry && !magazine.overflowed);
  }
  return good && bytes == capacity_bytes && bytes <= kLargestBudget;
}

}  // namespace llamalloc
