// SPDX-License-Identifier: Apache-2.0
// The heap of huge pages: hands out blocks in pages of a page group, and takes them back.
//
//   take / give       blocks
//   promote_expired   pages past their deadline join the next longer-lived group
//   join_groups       all pages join `unknown`
//   break_idle        the free blocks of pages at rest go back to the system (broken_pages.cc)
//   release           empty pages go back to the system
//
//   sets[group] { native, promoted, coarse } --huge page--> pool --> system
//
// Blocks come from the first of these that has room (docs/heap_policy.md):
//   1. pages of the group; in `unknown` and `session`, what is coarse prefers pages of its own
//      (Grain)
//   2. promoted pages of longer-lived groups: some of their objects stay anyway
//   3. in a small heap with much free space, other pages of longer-lived groups or of `unknown`:
//      there a new page costs more than separating the groups can save. So it does in a heap that
//      has outgrown the most that was used of late, but not for `permanent`: a group that was
//      large, and no longer is, would keep its holes for itself. But what is known to die leaves
//      the page that such a group fills now. Else `permanent` may always use pages of `unknown`,
//      since some objects stay there too, and what is `unknown` any page for a while after
//      placement by lifetime went off
//   4. in a heap that has outgrown its use, the roomiest page of a shorter-lived group, if half of
//      it is free: it becomes a promoted page of the group. Not where placement is sure to pay
//      (Gate::is_sure): a new page of what stays is denser when the load drops
//   5. a new page
// Several page sets are locked in order of rising address: towards the longer-lived groups, and
// within one in the order of PageKind.
#pragma once

#include <atomic>
#include <cstddef>
#include <iterator>

#include "pages/back_off.h"
#include "pages/break_order.h"
#include "pages/page_pool.h"
#include "pages/page_set.h"
#include "pages/split_watch.h"

namespace llamalloc {

enum class PageKind : uint8_t { native, promoted, coarse };
inline constexpr int kPageKinds = 3;
// What blocks are for. Coarse: slots or runs above kFineMax bytes, mostly buffers, of which many
// have 16 KiB. They leave together, unless one fine object stays among them (docs/heap_policy.md,
// H7).
enum class Grain : uint8_t { fine, coarse };
inline constexpr size_t kFineMax = size_t{14} << 10;
constexpr Grain grain_of(size_t bytes) {
  return bytes <= kFineMax ? Grain::fine : Grain::coarse;
}
// Up to so many fine pages a new page is fine, whatever it is for, unless one object fills it: in a
// small heap, pages of two kinds would cost more than they save.
inline constexpr uint32_t kSharedPages = 24;
// Above it, coarse blocks fill only fine pages whose longest free run is shorter than this, unless
// fill_left_over() says otherwise. Such a page stays anyway. One with more room may become empty,
// or is the one that fine blocks fill now.
inline constexpr uint32_t kHole = kBlocksPerHugePage / 2;
// The page that a group opened last, less long ago, is the one that it fills now. What is
// shorter-lived would leave holes in it, and save no page.
inline constexpr Nanos kBeingFilled = Nanos::seconds(2);
inline constexpr size_t kSmallHeap = 64;  // pages; default of share_pages_below
inline constexpr size_t kManyHoles = 16;  // more than this part of the blocks is free
inline constexpr size_t kOutgrown = 32;   // larger than what is needed by more than this part

// Which pages may be broken now.
struct BreakRules {
  Nanos before;  // pages of which no block was taken since ..
  // .. or, the fuller ones, since so much before that: 3 times `rest` where a quarter is used. Of
  // more it is 15 times `rest_of_fuller` where half is, 35 times where three quarters are.
  Nanos rest{}, rest_of_fuller{};
  size_t limit = SIZE_MAX;  // bytes to give back at most
  Nanos now{};              // pages whose deadline is between now and `spared` will be empty soon
  Nanos spared{};
  // Broken pages with so many used blocks are made huge again. That adds the memory of the others:
  // next to nothing where it must not.
  uint32_t mend_from = kMendFrom;
  // Also those that were fuller when they were broken; else only once they are fuller than then.
  bool works = false;
  static constexpr uint32_t kMendFrom = kBlocksPerHugePage / 2;
  static constexpr uint32_t kMendNearLimit = kBlocksPerHugePage - kBlocksPerHugePage / 32;
  static constexpr uint32_t kMendNone = kBlocksPerHugePage + 1;
};

// What break_pages did. Bytes, and pages.
struct Breaking {
  size_t given_back = 0;
  size_t left = 0;  // of pages that it would have broken, had the limit not been
  size_t pages = 0;
  size_t refused = 0;  // pages that the system did not split, or of which it left something
  size_t mended = 0;
  size_t unmended = 0;     // pages that the system did not make huge, or not yet
  bool mend_left = false;  // there may be more, but it took long enough
  Nanos break_time{};
  Nanos mend_time{};
};

// Not part of PageHeap, so that it can be stored with other zero-initialised tables.
struct PageSets {
  PageSet of[kPageGroups][kPageKinds];
  DemandSeries demand;
};

class PageHeap {
 public:
  using Place = PageSet::Place;

  constexpr PageHeap(PageSource& system, MetadataArena& arena, PageTables& tables, PageSets& sets)
      : system_(system),
        sets_(sets.of),
        demand_(sets.demand),
        pool_(system, arena, tables, &sets.demand) {}

  // Huge pages in use up to which groups fill the holes in pages of longer-lived ones; 0: they
  // never do.
  void share_pages_below(size_t pages) { small_heap_ = pages; }
  // How many runs of broken pages side by side are made; from half as many on, sparse ones alone
  // begin a new one. Each may split a mapping twice, and a process has 65,530 at most. Pages that
  // fill again cut a run in two, so there are at most four times as many pages.
  void limit_broken_runs(size_t most) { most_runs_ = most; }
  void use_huge_pages(bool yes) { pool_.use_huge_pages(yes); }
  // Whether what stays may fill holes in pages of `unknown`, as it does unless told otherwise.
  void fill_unknown_pages(bool yes) { fills_unknown_.store(yes, std::memory_order_relaxed); }
  // All pages are of `unknown` from now on: placement by lifetime was given up. Coarse ones are
  // those for which is_coarse(const HugePage&) holds; it is called under the lock of the page's
  // set. A page that another thread opens meanwhile may be missed.
  template <typename F>
  void join_groups(F&& is_coarse) {
    static_assert(static_cast<int>(PageGroup::unknown) == 0);
    pool_.for_each_record([&](HugePage* page) {
      PageSet* from = page->set.load(std::memory_order_acquire);
      if (from < std::end(sets_[0])) return;  // null, too
      bool coarse = false;
      {
        LockGuard guard(from->lock());
        coarse = page->set.load(std::memory_order_relaxed) == from && is_coarse(*page);
      }
      join(page, *from, coarse ? PageKind::coarse : PageKind::native);
    });
  }
  // Whether the page is one of unknown coarse blocks; a hint.
  bool is_coarse(const HugePage& page) const {
    return page.set.load(std::memory_order_relaxed) ==
           &sets_[0][static_cast<int>(PageKind::coarse)];
  }
  // Whether what is unknown, coarse or fine, fills any hole before it opens a page. The pages that
  // placement by lifetime left are more than fine blocks alone need.
  void fill_left_over(bool yes) { fills_left_over_.store(yes, std::memory_order_relaxed); }
  // Whether groups take over half-free pages of shorter-lived ones, as they do unless told
  // otherwise.
  void take_over_pages(bool yes) { takes_over_.store(yes, std::memory_order_relaxed); }
  // Bytes of blocks that were used at most of late, while objects are placed by lifetime. In a heap
  // larger than that by more than 1/kOutgrown groups fill the holes in pages of longer-lived ones,
  // and what is unknown fills any; 0: in no such heap.
  void note_most_used(size_t bytes) { most_used_.store(bytes, std::memory_order_relaxed); }
  // Bytes that the process may take until a memory limit is near. From then on groups fill each
  // other's holes, too, without waiting for the worker, which comes once a second.
  void note_before_full(size_t bytes);
  bool is_nearly_full() const { return taken() >= nearly_full_.load(std::memory_order_relaxed); }
  // Whether the process gets huge pages when it asks.
  void grant_huge_pages(bool yes) { pool_.grant_huge_pages(yes); }
  bool gets_huge_pages() const { return pool_.gets_huge_pages(); }
  // Whether the system counts what is committed: then what is given back is not committed either.
  void uncommit_empty(bool yes) { pool_.uncommit_empty(yes); }
  // Whether the system may be asked how many pages it has split, which opens a file.
  void count_splits(bool yes) { split_watch_.may_count(yes); }

  // Blocks for the group, at a multiple of `alignment` blocks; a null page: no memory.
  Place take(PageGroup group, Blocks blocks, uint32_t alignment, Grain grain = Grain::fine) {
    const Place place = take_in_use(group, blocks, alignment, grain);
    return place.page != nullptr ? place : take_new(group, blocks, grain);
  }
  // The same, but only from pages in use; a null page: none has room.
  Place take_in_use(PageGroup group, Blocks blocks, uint32_t alignment, Grain grain = Grain::fine);
  // Where the system has no more memory: wherever there is room, whatever the page is for.
  Place take_anywhere(Blocks blocks, uint32_t alignment);
  void give(HugePage* page, const char* start, Blocks blocks);
  // Extends an allocation from `have` to `want` blocks; false: the next blocks are not free.
  bool extend(HugePage* page, const char* start, Blocks have, Blocks want);
  // An object was taken in blocks of the page that had been taken before.
  void touch(HugePage* page) {
    if (has_deadline(page->group)) page->last_taken.store(coarse_time(), std::memory_order_relaxed);
  }

  // Moves pages past their deadline to the next longer-lived group; returns how many.
  size_t promote_expired(Nanos now);
  // Returns to the system the free blocks of pages that took no object since `before`, or for
  // longer where more is used (BreakRules); makes broken pages huge that filled up again
  // (mended_pages.cc), for a quarter of a second. In a process without huge pages any page that is
  // not full is broken. At most 16 pages are. Returns the bytes given back. Holds no lock in a
  // system call. One caller at a time.
  size_t break_idle(Nanos before) { return break_pages({.before = before}).given_back; }
  // The same within rules; those that are worth it most first (break_order.h).
  Breaking break_pages(const BreakRules& rules);
  // Gives back the huge pages that have been empty since `before`, `most` of them, but keeps
  // `retain`; and the tables of those that were given back up to `tables`. Returns how many pages.
  // No lock is held in a system call.
  size_t release(Nanos before, size_t retain, Nanos tables = Nanos::max(), size_t most = SIZE_MAX) {
    retain_.store(retain, std::memory_order_relaxed);
    const size_t released = pool_.release(before, retain, most);
    pool_.release_tables(tables);
    return released;
  }
  // As PagePool.
  void note_retained(size_t retain) { pool_.note_retained(retain); }
  bool fetch_one(Nanos before, Nanos* price) { return pool_.fetch_one(before, price); }
  // Gives back that many bytes of huge pages that are empty, however short a time, but keeps what
  // the last release() was to keep; release() sees to their tables. Returns the bytes.
  size_t release_now(size_t bytes) {
    const size_t pages = (bytes + kHugePageSize - 1) / kHugePageSize;
    const size_t retain = retain_.load(std::memory_order_relaxed);
    return pool_.release(Nanos::max(), retain, pages) * kHugePageSize;
  }
  // Whether a huge page got memory from the system since this was last asked.
  bool has_grown() { return pool_.has_grown(); }
  // Gives the address space of all empty pages back too. True if there was any.
  bool give_up_space() { return pool_.give_up_space(); }
  // In a child after fork, where nobody holds a lock: what another thread was giving back is still
  // there, and it takes nothing of what was promised to it.
  void keep_what_was_leaving() {
    pool_.keep_what_was_leaving();
    promised_.store(0, std::memory_order_relaxed);
  }
  // Makes the first pages huge once the heap has grown past them. A system call, for the worker.
  void collapse_first_pages() { pool_.collapse_first_pages(); }

  // No more is taken from the system where that would pass `bytes`; 0: no limit.
  void limit_growth(size_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  // Bytes that the layer above has mapped beside the huge pages.
  void set_mapped_elsewhere(size_t bytes) { elsewhere_.store(bytes, std::memory_order_relaxed); }
  // Whether it may be so much, were all else given back.
  bool could_take(size_t bytes) const {
    const size_t limit = limit_.load(std::memory_order_relaxed);
    return limit == 0 || bytes <= limit;
  }
  // Whether so much more may be taken. Then nobody else gets it until note_promised(), which
  // follows once it is counted, or is not needed.
  bool promise(size_t bytes);
  void note_promised(size_t bytes);

  PoolCounts counts() { return pool_.counts(); }
  // What was backed and used of all huge pages, over time.
  const DemandSeries& demand() const { return demand_; }
  const ReuseGaps& reuse_gaps() const { return pool_.gaps(); }
  // Huge pages that hold objects; a hint.
  size_t in_use() const { return pool_.in_use(); }
  bool has_empty() const { return pool_.has_empty(); }
  // Whether some of them are kept whatever happens.
  bool retains_empty() const { return retain_.load(std::memory_order_relaxed) != 0 && has_empty(); }
  bool may_release() const { return pool_.may_release(); }
  bool has_tables() const { return pool_.has_tables(); }  // of pages that were given back
  // Those taken from the system, counting every time; a hint.
  size_t acquired() const { return pool_.acquired(); }
  // Hints: bytes of blocks that are taken; bytes that broken pages had given back when break_idle
  // last looked.
  size_t used_bytes() const { return demand_.level().used; }
  size_t unbacked_bytes() const { return unbacked_.load(std::memory_order_relaxed); }

  // The same of 2 MiB pages on small pages: all of them in a process that gets no huge ones.
  size_t broken() const {
    return gets_huge_pages() ? broken_.load(std::memory_order_relaxed) : in_use();
  }
  // Huge pages in use by a group; a hint.
  size_t in_use_by(PageGroup group) const {
    size_t pages = 0;
    for (const PageSet& set : sets_[static_cast<int>(group)]) pages += set.pages();
    return pages;
  }

  // f("NAME", &counter) for counters that somebody may read from outside the process
  // (runtime/published.h).
  template <typename F>
  void publish(F&& f) const {
    demand_.publish(f);
    f("pages.unbacked_bytes", &unbacked_);
    f("pages.broken", &broken_);
    pool_.publish(f);
  }

  // f(const HugePage&) for each page in use, under the lock of its set, which is taken for each
  // page anew: nobody waits longer than f takes for one. No page comes twice; one that is in use
  // all the while comes once, promoted or not. One that is taken into use or emptied meanwhile may
  // be missed.
  template <typename F>
  void for_each_page(F&& f) {
    pool_.for_each_record([&](HugePage* page) {
      while (PageSet* set = page->set.load(std::memory_order_acquire)) {
        LockGuard guard(set->lock());
        if (page->set.load(std::memory_order_relaxed) == set) return f(*page);
      }
    });
  }

  // f(Lock&) for every lock, in the order in which they may be taken.
  template <typename F>
  void for_each_lock(F&& f) {
    for (auto& row : sets_)
      for (PageSet& set : row) f(set.lock());
    f(pool_.lock());
  }
  // While nothing changes.
  bool is_consistent();

 private:
  bool has_true_level();
  static bool has_deadline(PageGroup group) { return row(group).deadline.n != 0; }
  // Where lifetimes are known to three seconds or ten, they say more than sizes; and what stays,
  // stays.
  static constexpr bool lies_apart(PageGroup group, Grain grain) {
    return grain == Grain::coarse && (group == PageGroup::unknown || group == PageGroup::session);
  }
  int64_t coarse_time() { return system_.now_coarse().n; }
  void join(HugePage* page, PageSet& from, PageKind kind);
  PageSet& set_of(PageGroup group, PageKind kind) {
    return sets_[static_cast<int>(group)][static_cast<int>(kind)];
  }
  bool has_many_fine(PageGroup group) {
    return set_of(group, PageKind::native).pages() >= kSharedPages;
  }
  Place take_in(PageGroup group, PageKind kind, Blocks blocks, uint32_t alignment,
                const PageFilter& among = kAnyPage);
  void note_taken(const Place& place, Blocks blocks);
  bool is_limited() const { return limit_.load(std::memory_order_relaxed) != 0; }
  class Backing;
  Place search_in(PageSet& set, Blocks blocks, uint32_t alignment);
  Place take_in_longer_lived(PageGroup group, Blocks blocks, uint32_t alignment,
                             const PageFilter& among, bool any_unknown = false);
  bool is_small_with_holes() const;
  bool has_outgrown_use() const;
  size_t taken() const {
    return demand_.level().backed + elsewhere_.load(std::memory_order_relaxed);
  }
  Place take_own(PageGroup group, Blocks blocks, uint32_t alignment, Grain grain);
  PageKind kind_of_new(PageGroup group, Blocks blocks, Grain grain);
  Place take_new(PageGroup group, Blocks blocks, Grain grain);
  static bool is_expired(const HugePage* page, Nanos now);
  void promote(HugePage* page, PageSet& from, Nanos now) REQUIRES(from.lock());
  void move_to_longer_lived(HugePage* page, PageSet& from, PageGroup group) REQUIRES(from.lock());
  bool take_over(PageGroup group, Blocks blocks, uint32_t alignment);
  size_t break_one(HugePage* page, bool joins, const BreakRules& rules, bool huge, Breaking* done);
  bool is_one_too_many(const HugePage& page, bool joins) const;
  struct Full;
  void mend_full_pages(const BreakRules& rules, Breaking* done);
  void mend_full(PageSet& set, const BreakRules& rules, Breaking* done);
  void mend(PageSet& set, const Full& full, Breaking* done);
  bool count_as_whole(PageSet& set, const Full& full, bool whole);
  bool part(HugePage* page, const BlockBits& rest);
  void leave_whole(HugePage* page, const BlockBits& rest);
  bool give_rest_back(HugePage* page, const BlockBits& rest, uint32_t backed_before);
  // Calls f(set) for the set that the page is in, under the set's lock. The page may be promoted to
  // another set while we wait for the lock.
  template <typename F>
  auto with_set_of(HugePage* page, F&& f) {
    while (true) {
      PageSet* set = page->set.load(std::memory_order_acquire);
      LockGuard guard(set->lock());
      if (page->set.load(std::memory_order_relaxed) == set) return f(*set);
    }
  }

  PageSource& system_;
  PageSet (&sets_)[kPageGroups][kPageKinds];
  DemandSeries& demand_;
  PagePool pool_;
  size_t small_heap_ = kSmallHeap;
  std::atomic<bool> fills_unknown_{true};
  std::atomic<bool> fills_left_over_{false};
  std::atomic<bool> takes_over_{true};
  std::atomic<size_t> most_used_{0};
  std::atomic<size_t> nearly_full_{SIZE_MAX};  // bytes taken
  std::atomic<size_t> limit_{0};
  std::atomic<size_t> promised_{0};  // bytes that threads are about to take
  std::atomic<size_t> elsewhere_{0};
  std::atomic<size_t> retain_{0};    // pages
  std::atomic<size_t> unbacked_{0};  // bytes; written by break_pages
  std::atomic<size_t> broken_{0};    // the same
  // Of the caller of break_pages, of whom there is one at a time.
  size_t most_runs_ = 4096, runs_ = 0;
  SplitWatch split_watch_;
  BackOff mend_pause_;
  BreakCosts break_costs_;
  char* refused_up_to_ = nullptr;  // pages to mend up to here come after the others
  uint32_t mend_next_ = 0;         // the set that is looked at next
};

}  // namespace llamalloc
