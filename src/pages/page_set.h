// SPDX-License-Identifier: Apache-2.0
// The huge pages in use for one page group, and the choice of blocks in them.
//
//   buckets_[broken][b]: pages by their longest run of free blocks, lowest address first: of
//                        0, 1, 2 .. 127, 128 to 159, 160 to 191, 192 to 223, 224 to 255, 256
//
// A request for n blocks takes the lowest-addressed page that certainly fits, so that high pages
// become empty (docs/heap_policy.md, H3); a broken one only if no other fits, so that those become
// empty. Inside the page it takes the lowest blocks.
// Invariant: each page of the set is in the bucket of its longest_run; none has used_blocks == 0.
// newest_ is one of them, or null.
#pragma once

#include <bit>

#include "os/lock.h"
#include "pages/address_heap.h"
#include "pages/huge_page.h"

namespace llamalloc {

// Which pages blocks may come from.
struct PageFilter {
  // Whose longest free run is shorter. Up to kBlocksPerHugePage / 2, or a multiple of an eighth.
  uint32_t below = 2 * kBlocksPerHugePage;
  Nanos opened_until = Nanos::max();  // or later, but not the one opened last of the set
};
inline constexpr PageFilter kAnyPage;

class PageSet {
 public:
  // Blocks in one of the set's pages; null page if none was found.
  struct Place {
    HugePage* page = nullptr;
    uint32_t first = 0;
    bool fresh = false;  // none of its blocks was used since the page was backed: it reads as zero
    uint32_t newly_backed = 0;  // blocks of a broken page that get their memory now

    char* start() const { return page->base + first * kBlockSize; }
  };

  // may_back: otherwise not where blocks of a broken page have no memory; here and below.
  Place take(Blocks blocks, uint32_t alignment, const PageFilter& among = kAnyPage,
             bool may_back = true) REQUIRES(lock_);
  // Blocks of the lowest page that has room at all; null page: none has. It may look at every page,
  // so it is for where the system has no more memory.
  Place search(Blocks blocks, uint32_t alignment, bool may_back = true) REQUIRES(lock_);
  // Takes blocks of a page that is not in a set yet, and adds it.
  Place take_first(HugePage* page, Blocks blocks) REQUIRES(lock_);
  // True if the page is now empty and no longer in the set.
  bool give_back(HugePage* page, uint32_t first, Blocks blocks) REQUIRES(lock_);
  // Extends a used run in place; false if the blocks behind it are not free.
  // *newly_backed: as in Place.
  bool extend(HugePage* page, uint32_t first, Blocks old_blocks, Blocks new_blocks,
              uint32_t* newly_backed, bool may_back = true) REQUIRES(lock_);
  // take_rest takes all free blocks of the page, so that nobody else gets them; give_rest returns
  // them. clean: they read as zero now. Same result as give_back.
  BlockBits take_rest(HugePage* page) REQUIRES(lock_);
  bool give_rest(HugePage* page, const BlockBits& rest, bool clean) REQUIRES(lock_);
  // page->broken changes only so while the page is in the set.
  void mark_broken(HugePage* page, bool broken) REQUIRES(lock_);
  void add(HugePage* page) REQUIRES(lock_);
  // Before another set's add(). The caller keeps this set's lock until then: page->set still names
  // this set, so a thread that gives back blocks of the page waits for this lock.
  void remove(HugePage* page) REQUIRES(lock_);

  template <typename F>
  void for_each(F&& f) REQUIRES(lock_) {
    for (auto& buckets : buckets_)
      for (auto& bucket : buckets) bucket.for_each(f);
  }

  template <typename F>
  void for_each_broken(F&& f) REQUIRES(lock_) {
    for (auto& bucket : buckets_[true]) bucket.for_each(f);
  }

  // Any page for which f(page) holds, or null.
  template <typename F>
  HugePage* find(F&& f) REQUIRES(lock_) {
    HugePage* found = nullptr;
    for_each([&](HugePage* page) {
      if (found == nullptr && f(page)) found = page;
    });
    return found;
  }

  // The page with the longest free run, of those with one about as long the lowest; no broken one.
  // Null: there is none.
  HugePage* roomiest() const REQUIRES(lock_) {
    for (int w = kWords - 1; w >= 0; --w)
      if (const uint64_t filled = filled_[false][w])
        return buckets_[false][64 * w + std::bit_width(filled) - 1].min();
    return nullptr;
  }

  // A hint, read without the lock.
  bool has_pages() const { return pages_.load(std::memory_order_relaxed) != 0; }
  const std::atomic<uint32_t>* pages_counter() const { return &pages_; }
  uint32_t pages() const { return pages_.load(std::memory_order_relaxed); }
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }
  bool is_consistent() REQUIRES(lock_);

 private:
  // A run of so many blocks is the longest that is asked for, but for a whole page. Up to there
  // each length has a bucket: where one spans several, pages whose run is too short hide the
  // others.
  static constexpr int kExact = kBlocksPerHugePage / 2;
  static constexpr int kLengths = kBlocksPerHugePage / 8;  // of a bucket behind it
  static constexpr int kBuckets = kExact + (kBlocksPerHugePage - kExact) / kLengths + 1;
  static constexpr int kWords = (kBuckets + 63) / 64;
  static int bucket_of(uint32_t longest_run);
  void insert(HugePage* page) REQUIRES(lock_);
  void erase(HugePage* page) REQUIRES(lock_);
  HugePage* lowest_fit(Blocks blocks, uint32_t alignment, int end, const HugePage* except,
                       bool broken) const REQUIRES(lock_);
  HugePage* find_fit(Blocks blocks, uint32_t alignment, bool broken, bool may_back) const
      REQUIRES(lock_);
  void count(int32_t change) REQUIRES(lock_) {
    pages_.store(pages_.load(std::memory_order_relaxed) + static_cast<uint32_t>(change),
                 std::memory_order_relaxed);
  }
  Place take_from(HugePage* page, Blocks blocks, uint32_t alignment, bool may_back) REQUIRES(lock_);
  Place take_at(HugePage* page, uint32_t first, Blocks blocks) REQUIRES(lock_);
  static bool has_memory(const HugePage* page, uint32_t first, uint32_t n);
  static uint32_t soil(HugePage* page, uint32_t first, uint32_t n);
  void move(HugePage* page, uint32_t longest_run) REQUIRES(lock_);
  uint32_t use(HugePage* page, uint32_t first, uint32_t n) REQUIRES(lock_);
  bool refit(HugePage* page, uint32_t longest_run) REQUIRES(lock_);

  Lock lock_{LockRank::page_set};
  AddressHeap<HugePage> buckets_[2][kBuckets] GUARDED_BY(lock_);
  uint64_t filled_[2][kWords] GUARDED_BY(lock_) = {};       // a bit for each bucket with pages
  const char* lowest_[2][kBuckets] GUARDED_BY(lock_) = {};  // of it; where one has pages
  HugePage* newest_ GUARDED_BY(lock_) = nullptr;            // opened last; null: it has gone
  std::atomic<uint32_t> pages_{0};
};

}  // namespace llamalloc
