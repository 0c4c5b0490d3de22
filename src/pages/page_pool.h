// SPDX-License-Identifier: Apache-2.0
// The pool of huge pages: address space reserved in growing chunks, and the empty pages.
//
//   chunk (64 MiB, doubling to 1 GiB, halved when the system refuses) -> page -> set -> empty
//   empty and backed: reused first, lowest address first; given back after a while, oldest first
//   empty and given back: reused before new space is taken. What describes it (the records of its
//     spans, its part of the tables) goes back later: a hundredth of its memory, but a fault for
//     each small page of it if the page is fetched again
// Where the system counts what is committed, a page that is given back is committed again when it
// is taken.
//
// The first pages of a process stay on small pages until the heap has grown past them, so that a
// short-lived command does not pay for zeroing megabytes, and the processes of a server that forks
// do not each leave half a huge page unused. Then they become huge like all others.
// Second-level translation caches of 2,048 entries hold small pages of 8 MiB. With 6 MiB eight
// processes of postgres peak at 1.08 of glibc's memory, with 8 MiB at 1.04, with 12 at 1.04.
#pragma once

#include <atomic>
#include <cstddef>

#include "os/arena.h"
#include "os/lock.h"
#include "os/pages.h"
#include "pages/address_heap.h"
#include "pages/demand_series.h"
#include "pages/huge_page.h"
#include "pages/page_tables.h"
#include "pages/reuse_gaps.h"

namespace llamalloc {

struct PoolCounts {
  size_t reserved_bytes = 0;
  size_t committed_bytes = 0;
  size_t empty_backed = 0;     // pages
  size_t empty_blocks = 0;     // of them, that have memory
  size_t acquired = 0;         // pages taken from the system, counting every time
  size_t released = 0;         // pages given back
  size_t released_blocks = 0;  // of them, that had memory
  size_t refetched = 0;        // pages taken from the system again, part of acquired
};

// Pages by age, linked by `older` and `newer`.
class PageList {
 public:
  HugePage* oldest() const { return oldest_; }
  void add_newest(HugePage* page) {
    page->older = newest_;
    page->newer = nullptr;
    (newest_ ? newest_->newer : oldest_) = page;
    newest_ = page;
  }
  void remove(HugePage* page) {
    (page->older ? page->older->newer : oldest_) = page->newer;
    (page->newer ? page->newer->older : newest_) = page->older;
  }
  size_t count() const {
    size_t n = 0;
    for (const HugePage* page = oldest_; page != nullptr; page = page->newer) ++n;
    return n;
  }

 private:
  HugePage* oldest_ = nullptr;
  HugePage* newest_ = nullptr;
};

class PagePool {
 public:
  // demand: is told of each page that gets or loses its memory here; null: nobody asks.
  constexpr PagePool(PageSource& system, MetadataArena& arena, PageTables& tables,
                     DemandSeries* demand = nullptr)
      : system_(system), arena_(arena), tables_(tables), demand_(demand) {}

  // Whether to ask for huge pages.
  void use_huge_pages(bool yes) { want_huge_ = yes; }
  // Whether the process gets huge pages when it asks; it may switch them off and on at run time.
  // The madvise for new space does not depend on it.
  void grant_huge_pages(bool yes) { granted_.store(yes, std::memory_order_relaxed); }
  bool gets_huge_pages() const { return want_huge_ && granted_.load(std::memory_order_relaxed); }
  void uncommit_empty(bool yes) { uncommits_.store(yes, std::memory_order_relaxed); }

  // An empty page, or null when the system has no memory; without may_back, also when none is
  // backed.
  HugePage* acquire(bool may_back = true);
  void put_empty(HugePage* page, Nanos now);

  // Gives back empty pages that were emptied up to `before`, oldest first, but keeps `retain`. No
  // system call happens under the lock. Returns the pages given back, at most `most`.
  size_t release(Nanos before, size_t retain, size_t most = SIZE_MAX);
  // So many empty pages are kept for good.
  void note_retained(size_t retain);
  // Gives back the records and tables of the pages that were given back up to `before`. No system
  // call happens under the lock.
  void release_tables(Nanos before);
  // Fetches a page that was given back up to `before`, so that it is empty and backed, and sets
  // *price to the processor time of that. False: there is none, or the system refuses it. No system
  // call under the lock but commit().
  bool fetch_one(Nanos before, Nanos* price);
  // Whether a page got memory from the system since this was last asked.
  bool has_grown() {
    return grown_.load(std::memory_order_relaxed) &&
           grown_.exchange(false, std::memory_order_relaxed);
  }

  // Also returns the address space of all empty pages, and space without pages yet. Used when the
  // system refuses a mapping. True if there was any.
  bool give_up_space();

  // As PageHeap.
  void keep_what_was_leaving();
  // Makes the first pages huge once the heap has grown past them. A system call, for the worker.
  void collapse_first_pages();
  // The same for a page that was broken, by where it lies.
  Collapse make_huge(char* base);

  // f(HugePage*) for the record of every page that ever was, in use or not, each once. No lock is
  // held: page->set says whether the page is in use.
  template <typename F>
  void for_each_record(F&& f) const {
    for (Records* records = records_.load(std::memory_order_acquire); records != nullptr;
         records = records->before)
      for (HugePage& page : records->pages) f(&page);
  }

  PoolCounts counts();
  // How long empty pages waited until they were taken again, given back or not.
  const ReuseGaps& gaps() const { return gaps_; }
  // Hints, read without the lock.
  bool has_empty() const { return empty_hint_.load(std::memory_order_relaxed) > 0; }
  // False: the system refused to take what is empty (it is locked in memory), or all of it is to be
  // kept; and nothing came since.
  bool may_release() const { return has_empty() && !refused_.load(std::memory_order_relaxed); }
  bool has_tables() const { return tables_hint_.load(std::memory_order_relaxed) > 0; }
  size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  size_t acquired() const { return acquired_hint_.load(std::memory_order_relaxed); }
  // As PageHeap::publish.
  template <typename F>
  void publish(F&& f) const NO_THREAD_SAFETY_ANALYSIS {
    f("pages.in_use", &in_use_);
    f("pages.gets_huge", &granted_);
    f("pages.wants_huge", &want_huge_);
    f("pages.empty", &empty_hint_);
    f("pages.reserved_bytes", &counts_.reserved_bytes);
    f("stat.huge_pages_acquired", &counts_.acquired);
    f("stat.huge_pages_released", &counts_.released);
  }
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }
  bool is_consistent();

 private:
  static constexpr size_t kFirstChunk = 64 << 20;
  static constexpr size_t kLargestChunk = 1 << 30;
  static constexpr size_t kCommitStep = 32 << 20;
  // Of a server of many processes most stay below that, and hold less on small pages.
  static constexpr size_t kFirstPages = 8;
  static constexpr size_t kManyPages = 24;    // once there are more, the first ones become huge
  static constexpr size_t kMostRefused = 16;  // discards, until release() gives up
  static constexpr size_t kRecordsAtOnce = 16;

  struct Records {
    Records* before;
    HugePage pages[kRecordsAtOnce];
  };

  void note_backed(int64_t blocks) {
    if (demand_ != nullptr && blocks != 0) demand_->change_backed(blocks, system_.now_coarse());
  }
  void add_backed(HugePage* page) REQUIRES(lock_);
  void remove_backed(HugePage* page) REQUIRES(lock_);
  void add_given_back(HugePage* page) REQUIRES(lock_);
  void remove_given_back(HugePage* page) REQUIRES(lock_);
  void add_described(HugePage* page) REQUIRES(lock_);
  void remove_described(HugePage* page) REQUIRES(lock_);
  void become_given_back(HugePage* page);
  void stop_leaving(HugePage* page) REQUIRES(lock_);
  HugePage* take_described(Nanos before, HugePage** neighbour);
  HugePage* take_oldest(Nanos before, size_t retain);
  bool discard(HugePage* page);
  void note_committed(HugePage* page, bool committed) REQUIRES(lock_);
  bool commit(HugePage* page) REQUIRES(lock_);
  HugePage* back_another() REQUIRES(lock_);
  void become_backed(HugePage* page) REQUIRES(lock_);
  void note_reuse(const HugePage* page) {
    gaps_.add(system_.now_coarse() - page->emptied, kHugePageSize);
  }
  HugePage* take_new() REQUIRES(lock_);
  void meet_neighbour(HugePage* page) REQUIRES(lock_);
  HugePage* new_record() REQUIRES(lock_);
  bool make_records() REQUIRES(lock_);
  HugePage* detach_empty() REQUIRES(lock_);
  void keep_rest(char* rest, char* committed, char* end);
  bool commit_more() REQUIRES(lock_);
  bool reserve_chunk() REQUIRES(lock_);

  PageSource& system_;
  MetadataArena& arena_;
  PageTables& tables_;
  DemandSeries* const demand_;
  Lock lock_{LockRank::pool};
  bool want_huge_ = true;
  std::atomic<bool> granted_{true};
  std::atomic<bool> uncommits_{false};
  size_t next_chunk_ GUARDED_BY(lock_) = kFirstChunk;
  char* cursor_ GUARDED_BY(lock_) = nullptr;     // next page never used
  char* committed_ GUARDED_BY(lock_) = nullptr;  // end of the committed part of the chunk
  char* limit_ GUARDED_BY(lock_) = nullptr;      // end of the chunk
  HugePage* last_made_ GUARDED_BY(lock_) =
      nullptr;  // ends at cursor_, unless that is a new chunk's
  size_t pages_made_ GUARDED_BY(lock_) = 0;
  HugePage* first_pages_[kFirstPages] GUARDED_BY(lock_) = {};
  std::atomic<bool> collapse_due_{false};
  AddressHeap<HugePage> backed_ GUARDED_BY(lock_);
  PageList by_age_ GUARDED_BY(lock_);  // the same pages by the time they became empty
  AddressHeap<HugePage> given_back_ GUARDED_BY(lock_);
  PageList described_ GUARDED_BY(lock_);         // those of them that have tables
  PageList leaving_ GUARDED_BY(lock_);           // neither, during a system call for them
  HugePage* spare_ GUARDED_BY(lock_) = nullptr;  // records without a page, linked by `older`
  // The latest. Never shrinks; the release pairs with the acquire of who reads without the lock.
  std::atomic<Records*> records_ WRITTEN_UNDER(lock_){nullptr};
  PoolCounts counts_ GUARDED_BY(lock_);
  ReuseGaps gaps_;
  std::atomic<size_t> empty_hint_{0};     // counts_.empty_backed for readers without the lock
  std::atomic<size_t> tables_hint_{0};    // pages that are described, the same
  std::atomic<size_t> acquired_hint_{0};  // counts_.acquired, the same
  std::atomic<size_t> in_use_{0};         // pages handed out; written under the lock
  std::atomic<bool> grown_{false};
  std::atomic<bool> refused_{false};
};

}  // namespace llamalloc
