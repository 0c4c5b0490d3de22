// SPDX-License-Identifier: Apache-2.0
// The heap: slots, runs and direct mappings, placed by page group. It knows groups and predicts
// nothing; threads, clocks and options belong to the layers above.
//
//   take / give              slots of a bin = (page group, size class, sampled or not)
//   allocate / deallocate    runs of blocks above 256 KiB, direct mappings above 1 MiB
//
//   bin --span--> page set of the group --huge page--> pool --> system
//
// Where blocks come from, in this order (docs/heap_policy.md): pages of the group; promoted pages
// of longer-lived groups (they are pinned already); while the heap is small, pages of `unknown`,
// since pages of their own would cost such a heap more than they can save; a new page.
// Lock order: bin, page set, pool, arena. No system call under a bin's lock but for new pages.
#pragma once

#include <cstddef>

#include "heap/page_pool.h"
#include "heap/page_set.h"
#include "heap/span.h"
#include "heap/span_map.h"

namespace llamalloc {

inline constexpr size_t kRunMax = size_t{1} << 20;
inline constexpr size_t kCachedDirectBytes = size_t{128} << 20;  // of a freed mapping that is kept
inline constexpr int kCachedDirect = 16;
inline constexpr int kLocalBins = kPageGroups * kSizeClasses;
inline constexpr int kNoLocalBin = kLocalBins;  // of what no thread may cache
inline constexpr int kBins = 2 * kLocalBins;    // the second half holds the sampled objects
// Bytes that a thread keeps for each local bin: so that a free finds them with one addition.
inline constexpr int kLocalBinStride = 32;

constexpr int bin_of(PageGroup group, int size_class, bool sampled) {
  return ((sampled ? kPageGroups : 0) + static_cast<int>(group)) * kSizeClasses + size_class;
}
constexpr PageGroup group_of_bin(int bin) {
  return static_cast<PageGroup>(bin / kSizeClasses % kPageGroups);
}

struct GroupCounts {
  size_t pages = 0;
  size_t allocated = 0;    // bytes in slots and runs that are not free (threads' claims included)
  size_t free_slots = 0;   // bytes
  size_t free_blocks = 0;  // bytes
};

struct alignas(kCacheLine) Bin {
  Lock lock;
  AddressHeap<Span> partial;  // spans with free slots
};

enum class PageKind : uint8_t { native, promoted };
inline constexpr int kPageKinds = 2;
inline constexpr size_t kSmallHeap = 16;  // default of share_pages_below

// The large tables, apart from Heap so that they start as zeroes of .bss and not as bytes of .data.
struct HeapTables {
  SpanMap map;
  Bin bins[kBins];
  PageSet sets[kPageGroups][kPageKinds];
};

class Heap {
 public:
  constexpr Heap(PageSource& system, MetadataArena& arena, HeapTables& tables)
      : system_(system),
        arena_(arena),
        map_(tables.map),
        bins_(tables.bins),
        sets_(tables.sets),
        pool_(system, arena, tables.map) {}

  // Huge pages in use up to which all groups take blocks of `unknown` pages.
  void share_pages_below(size_t pages) { small_heap_ = pages; }
  void use_huge_pages(bool yes) { pool_.use_huge_pages(yes); }

  Span* find(const void* pointer) const { return map_.find(pointer); }

  // Takes up to n free slots of the bin, lowest addresses first, and puts them at the end of
  // out[0..n): the lowest last, so that a stack hands them out in order. How many; 0: no memory.
  size_t take(int bin, void** out, size_t n);
  // One slot, or null.
  void* take_one(int bin) {
    void* slot = nullptr;
    return take(bin, &slot, 1) == 1 ? slot : nullptr;
  }
  // Gives back slots of the bin (starts of objects). The result is one that was free already (a
  // double free; nothing changes for it), or null.
  void* give(int bin, void* const* slots, size_t n);
  void* give_one(void* slot) { return give(map_.find(slot)->bin, &slot, 1); }

  // An object above kSmallMax bytes or with an alignment (power of two) above what slots give;
  // null: no memory. Whether it reads as zero: span->fresh.
  Span* allocate(size_t bytes, size_t alignment, PageGroup group, bool sampled);
  void deallocate(Span* span);
  // Makes a run or direct mapping hold `bytes` without a copy by the program; null: not possible.
  // A direct mapping may move: the result is the address.
  void* resize(Span* span, size_t bytes);

  // Moves pages past their deadline to the next longer-lived group; returns how many.
  size_t promote_expired(Nanos now);
  // Gives back the huge pages that have been empty since `before`, but keeps `retain_pages`.
  // Returns how many. No system call happens under a lock that an allocation takes.
  size_t release(Nanos before, size_t retain_pages) { return pool_.release(before, retain_pages); }
  // The same for freed direct mappings.
  size_t release_direct(Nanos before);

  void collapse_first_pages() { pool_.collapse_first_pages(); }

  PoolCounts pool_counts() { return pool_.counts(); }
  // Huge pages that hold objects; a hint.
  size_t pages_in_use() const { return pool_.in_use(); }
  // Empty huge pages or freed mappings that still have memory behind them: something to release.
  bool has_empty_pages() const { return pool_.has_empty() || cached_direct_bytes() != 0; }
  size_t cached_direct_bytes() const {
    return cached_direct_bytes_.load(std::memory_order_relaxed);
  }
  // Memory behind the map from addresses to spans; records are counted by the arena.
  size_t map_bytes() const { return map_.resident_bytes(system_); }
  size_t direct_bytes() const { return direct_bytes_.load(std::memory_order_relaxed); }
  size_t direct_count();  // walks their list
  GroupCounts count(PageGroup group);
  // f(const HugePage&) for every page in use, under its set's lock.
  template <typename F>
  void for_each_page(F&& f) {
    for (auto& row : sets_)
      for (auto& set : row) {
        LockGuard guard(set.lock());
        set.for_each([&](HugePage* page) { f(*page); });
      }
  }

  // f(const Span&) for every span of the page, lowest first; the caller holds its set's lock.
  template <typename F>
  void for_each_span(const HugePage& page, F&& f) const {
    for (uint32_t block = page.used.next(0, true); block < kBlocksPerHugePage;) {
      const Span* span = map_.find_any(page.base + block * kBlockSize);
      uint32_t blocks = 1;
      if (span != nullptr) {
        blocks = span->kind == SpanKind::slots ? kSizeClassRows[span->bin % kSizeClasses].blocks
                                               : Blocks::covering(span->bytes).n;
        f(*span);
      }
      block = page.used.next(block + blocks, true);
    }
  }

  void lock_all();
  void unlock_all();
  void reset_locks_after_fork();
  bool any_lock_is_held();
  bool is_consistent();

 private:
  Span* new_span(int bin);
  void count_freed(Bin& bin, Span* span, uint32_t freed);
  void free_span(Span* span);
  Span* allocate_direct(size_t bytes, size_t alignment, bool sampled);
  Span* reuse_direct(size_t bytes, size_t alignment);
  void cache_direct(Span* span);
  Span* take_cached_direct(Nanos before);
  void unmap_direct(Span* span);
  bool extend_run(Span* span, Blocks have, Blocks want);
  void* resize_direct(Span* span, size_t bytes);
  PageSet::Place take_blocks(PageGroup group, Blocks blocks, uint32_t alignment);
  PageSet::Place take_in(PageGroup group, PageKind kind, Blocks blocks, uint32_t alignment);
  PageSet::Place take_elsewhere(PageGroup group, Blocks blocks, uint32_t alignment);
  PageSet::Place open_page(PageGroup group, Blocks blocks);
  void give_blocks(HugePage* page, char* start, Blocks blocks);
  PageSet& set_of(PageGroup group, PageKind kind) {
    return sets_[static_cast<int>(group)][static_cast<int>(kind)];
  }
  void promote(HugePage* page, Nanos now);
  void link_direct(Span* span);
  void link_direct_locked(Span* span);
  void unlink_direct(Span* span);

  int cached_directs() const { return cached_directs_.load(std::memory_order_relaxed); }
  Span* new_direct_record();
  void free_direct_record(Span* span);

  PageSource& system_;
  MetadataArena& arena_;
  SpanMap& map_;
  Bin (&bins_)[kBins];
  PageSet (&sets_)[kPageGroups][kPageKinds];
  PagePool pool_;
  size_t small_heap_ = kSmallHeap;
  Lock direct_lock_;
  Span* free_direct_records_ = nullptr;  // guarded by direct_lock_
  Span* direct_ = nullptr;               // guarded by direct_lock_
  std::atomic<size_t> direct_bytes_{0};
  // Freed mappings, newest first, for the next request of about their size; under direct_lock_.
  Span* cached_direct_ = nullptr;
  std::atomic<int> cached_directs_{0};
  std::atomic<size_t> cached_direct_bytes_{0};
  Span* refused_direct_ =
      nullptr;  // freed, and the system would not unmap them; under direct_lock_
  std::atomic<bool> any_refused_{false};
};

}  // namespace llamalloc
