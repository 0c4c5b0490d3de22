// SPDX-License-Identifier: Apache-2.0
// What a thread caches: for each local bin a magazine, which is a stack of free slots, and the run
// that the thread freed last. Used by one thread only. What is large goes on to its shelf, where
// other threads may reach it (shelves.h).
//
//   magazine[b]   base[ oldest | ... | newest ]top ... limit       one word a slot
//
// malloc pops and free pushes, whichever thread allocated the slot: without a lock or an atomic
// operation, and without touching the object. An empty magazine takes slots from the heap; a full
// one gives its older half back: one visit for many slots (Bonwick and Adams 2001, "Magazines and
// Vmem"). With several threads, that half goes into the bin's depot (heap.h), and the next empty
// magazine takes it from there.
//
// Capacities start at zero. With several threads they stay zero for the first slot taken and the
// first given. Then a capacity doubles each time the thread needs the heap: up to about 4 KiB in
// any case (less if there are many threads), and further only if the magazine both ran dry and
// overflowed (one that does only one of these gains nothing from more room), or found the lock of
// its bin held. The sum of all capacities, in bytes, stays within the thread's budget, which grows
// with each visit to the heap or the shelf, beyond the thread's share of a small heap slowly. The
// worker has each thread halve it once a second. So a thread that allocates little caches little,
// and caches nothing of a size that it needs once: the next thread finds the slot in the depot.
//
// Invariants: base <= top <= limit; base[-1] is null; a slot lies in at most one magazine;
// capacity_bytes is the sum over the magazines of capacity * size, at most the budget at the time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "heap/heap.h"
#include "os/arena.h"
#include "os/processor.h"

namespace llamalloc {

struct Magazine {
  void** top;          // behind the newest slot
  void** base;         // the oldest slot; null: no room yet
  void** limit;        // end of the array
  uint8_t array_log2;  // log2 of the words of the array, base[-1] included; 0: no array
  bool ran_dry;        // since it last grew
  bool overflowed;     // since it last grew
  bool waited;         // since it last grew: found a lock held on the way to its bin

  size_t capacity() const { return static_cast<size_t>(limit - base); }
  size_t held() const { return static_cast<size_t>(top - base); }
  bool is_empty() const { return top == base; }
  bool is_full() const { return top == limit; }
  // Only while not empty, and not full.
  void* pop() { return *--top; }
  void push(void* slot) { *top++ = slot; }
};

inline constexpr int kMagazineLog2Max = 11;  // 2047 slots
inline constexpr int kSmallLog2 = 3;         // 7 slots
inline constexpr size_t kFirstBudget = size_t{8} << 10;
inline constexpr size_t kBudgetStep = 64;
inline constexpr size_t kWaitedStep = 1024;  // for a magazine that waited
// Beyond the thread's share of what the heap's size allows. The worker takes back half once a
// second: so a MiB more stays only with a hundred thousand visits a second. (Without a worker
// nothing is taken back.)
inline constexpr size_t kEarnedStep = 8;
inline constexpr size_t kBusyBudget = size_t{512} << 10;
inline constexpr size_t kLargestBudget = size_t{4} << 20;  // bytes a thread
// A thread that waited so often since it last started over uses the shard of its processor
// (bin_shards.h), and its shelf earns faster, up to its part of kContendedShelves if that is more.
// To wait once takes about a microsecond.
inline constexpr uint32_t kContended = 128;
inline constexpr size_t kContendedShelves = size_t{128} << 20;  // bytes
// kClassIndex in bytes, so that the fast path needs no shift: the offset of a class's magazine
// among the magazines of a group.
inline constexpr auto kMagazineOffsets = [] {
  std::array<uint16_t, kClassIndex.size()> offsets{};
  for (size_t i = 0; i < offsets.size(); ++i)
    offsets[i] = static_cast<uint16_t>(kClassIndex[i] * sizeof(Magazine));
  return offsets;
}();
constexpr size_t magazine_offset_of(int size_class) {
  return static_cast<size_t>(size_class) * sizeof(Magazine);
}
// The same for a size up to kTableMax.
constexpr size_t table_offset_of(size_t size) {
  return kMagazineOffsets[(size + 15) >> 4];
}

// The ratio of an offset in `bins` to the tag's offset.
inline constexpr size_t kTagScale = sizeof(Magazine) / sizeof(uint64_t);

struct Magazines {
  size_t budget;
  size_t capacity_bytes;
  Span* run;     // freed last, in no map; null: none
  Shelf* shelf;  // null: not needed yet
  // So many more allocations are to pass by the cache, and what is freed goes back to its span, not
  // to a depot. Until the next start_over.
  uint32_t bypasses;
  uint32_t waits;   // locks that its thread found held, since it started over
  uint32_t seen;    // waits_of_this_thread when they were last counted
  int most_log2;    // no magazine grows beyond; kMagazineLog2Max, or kSmallLog2 until then, too
  uint32_t groups;  // bit g: a magazine of page group g was needed; the others are as new
  void** free_arrays[kMagazineLog2Max + 1];  // by log2 of their words, linked through the first
  Magazine bins[kLocalBins];

  // The magazine at an offset in the first group.
  Magazine* at_offset(size_t offset) {
    return reinterpret_cast<Magazine*>(reinterpret_cast<char*>(bins) + offset);
  }
  // The magazine of the tag's bin; not to be used if the tag has no bin.
  Magazine* at(SpanTag tag) { return at_offset(tag.bin_offset() * kTagScale) + kNoLocalBin; }
  void initialise();
  // By a thread that begins to use them.
  void begin() { seen = waits_of_this_thread; }
  // Fills the empty magazine of a bin and returns one more slot; null: no memory. threads: how many
  // share the cache limit.
  void* refill(Heap& heap, MetadataArena& arena, int bin, size_t threads);
  // Frees a slot of a bin whose magazine is full. Returns a slot that was freed twice, or null.
  void* spill(Heap& heap, MetadataArena& arena, int bin, void* slot, size_t threads);
  // Keeps a run that the program freed; the one kept before goes on the shelf, or to the heap if
  // there is no room. False: nobody would take it (Heap::may_shelve), and nothing was done.
  bool keep_run(Heap& heap, Span* span, size_t threads);
  // The run kept last if it has exactly that length and group; else null.
  Span* take_run(Heap& heap, Blocks blocks, PageGroup group) {
    Span* const span = run;
    if (span == nullptr || span->bytes != blocks.bytes() || span->asked != group) return nullptr;
    run = nullptr;
    heap.show_again(span);
    return span;
  }
  // The same, or else one on the shelf. alignment: in blocks.
  Span* take_kept_run(Heap& heap, Blocks blocks, PageGroup group, uint32_t alignment,
                      size_t threads);
  // Gives everything back to the heap. Returns a slot that was freed twice, or null.
  void* flush(Heap& heap);
  // After flush(), also resets the capacities: they grow again as needed, within half of the old
  // budget. So a thread that is less busy than before does not keep large magazines, and one that
  // takes the place of one that has ended need not begin from nothing.
  void start_over(uint32_t allowed_bypasses = 0, bool stay_small = false);
  // Whether its thread waited often, since it started over.
  bool is_contended() const { return waits >= kContended; }
  size_t cached_bytes() const;
  bool is_consistent() const;

 private:
  // Skips magazines of groups that were never used, so that their memory is not touched.
  template <typename F>
  void for_each_needed(F&& f) const {
    for (int b = 0; b < kLocalBins; ++b)
      if ((groups & group_bit(b)) != 0) f(b);
  }
  static uint32_t group_bit(int bin) { return 1u << static_cast<int>(group_of_bin(bin)); }
  Shelf& shelf_of(Heap& heap) {
    if (shelf == nullptr) shelf = &heap.next_shelf();
    return *shelf;
  }
  // Counts what the thread waited since the last time; the owner calls it.
  void count_waits() { waits += waits_of_this_thread - std::exchange(seen, waits_of_this_thread); }
  // f() may wait on the way to the bin of the magazine.
  template <typename F>
  auto watch(Magazine& magazine, F&& f) {
    const uint32_t before = waits_of_this_thread;
    auto result = f();
    if (waits_of_this_thread != before) magazine.waited = true;
    return result;
  }
  int shard() const {
    return __builtin_expect(is_contended(), 0) ? BinShards::shard_of(this_processor()) : 0;
  }
  void earn(Heap& heap, size_t threads);
  void shelve_or_free(Heap& heap, Span* run, size_t threads);
  void* take_shelved(Heap& heap, int bin);
  bool shelve(Heap& heap, int bin, void* slot, size_t threads, void** twice);
  void* take_elsewhere(Heap& heap, int bin);
  bool grow(int bin, Heap& heap, MetadataArena& arena, size_t threads);
  void** new_array(int log2, MetadataArena& arena);
  void free_array(void** array, int log2);
};

}  // namespace llamalloc
