// SPDX-License-Identifier: Apache-2.0
// Huge pages of which much is free at rest: that goes back to the system, and they are made huge
// again when they fill (mended_pages.cc). In a process without huge pages nothing is lost
// by that: whatever is free of a page at rest goes back.
#include <algorithm>

#include "pages/best_few.h"
#include "pages/page_heap.h"

namespace llamalloc {
namespace {

// Used blocks: with at most so many it is broken after the shortest rest, as sparse, and at all.
constexpr uint32_t kLittle = kBlocksPerHugePage / 8;
constexpr uint32_t kSparse = kBlocksPerHugePage / 4;
constexpr uint32_t kMost = kBlocksPerHugePage - kBlocksPerHugePage / 4;
constexpr uint32_t kFuller = kBlocksPerHugePage / 8;  // more than then, until it is mended
constexpr size_t kAtOnce = 16;                        // pages of a round; each is split
constexpr size_t kSmallAtOnce = 64;                   // of those that consist of small ones

constexpr size_t kMostOfRun = 4;  // pages on average, where there are many runs

struct Candidate {
  HugePage* page;
  double worth;
  bool joins;  // a run of broken pages, behind its last one
  bool operator<(const Candidate& other) const { return worth > other.worth; }
};

size_t gain_of(const HugePage* page) {
  return (page->backed_blocks() - page->used_blocks) * kBlockSize;
}

// All its objects should be dead by then. One into whose spans others are placed meanwhile will not
// be empty.
bool is_empty_soon(const HugePage* page, const BreakRules& rules) {
  const int64_t deadline = row(page->group.load(std::memory_order_relaxed)).deadline.n;
  const int64_t taken = page->blocks_taken.load(std::memory_order_relaxed);
  return deadline > rules.now.n - taken && deadline <= rules.spared.n - taken;
}

// The more is in a page, the sooner it may fill again, and the more would lose its huge page. What
// is lost with one that is not sparse grows with the work of the process.
bool is_at_rest(const HugePage* page, bool huge, const BreakRules& rules) {
  const double fill =
      huge && !page->broken ? std::max(1.0, page->used_blocks / double{kLittle}) : 1;
  const Nanos rest = page->used_blocks > kSparse ? rules.rest_of_fuller : rules.rest;
  const double longer = (fill * fill - 1) * static_cast<double>(rest.n);
  return page->blocks_taken.load(std::memory_order_relaxed) <=
         rules.before.n - static_cast<int64_t>(longer);
}

bool is_to_break(const HugePage* page, bool huge, const BreakRules& rules) {
  if (!is_at_rest(page, huge, rules)) return false;
  if (huge && is_empty_soon(page, rules)) return false;
  if (page->broken) return page->dirty.count() > page->used_blocks;
  return page->used_blocks <= (huge ? kMost : kBlocksPerHugePage - 1);
}

}  // namespace

// First a look at all pages, so that the best ones are broken wherever they are. A lock is held for
// one page at a time, however many there are.
Breaking PageHeap::break_pages(const BreakRules& rules) {
  const bool huge = pool_.gets_huge_pages();
  split_watch_.begin_round();
  mend_pause_.begin_round();
  const bool may_break = !huge || !split_watch_.is_resting();
  const Nanos now = system_.now_coarse();
  Breaking done;
  if (huge) mend_full_pages(rules, &done);
  BestFew<Candidate, kSmallAtOnce> best;
  size_t in_pieces = 0, runs = 0, unbacked = 0, possible = 0, tried = 0;
  const char* behind_run = nullptr;
  for_each_page([&](HugePage& page) {
    const bool joins = page.base == behind_run;
    in_pieces += page.broken;
    runs += page.broken && !joins;
    if (page.broken) behind_run = page.base + kHugePageSize;
    unbacked += (kBlocksPerHugePage - page.backed_blocks()) * kBlockSize;
    if (!may_break || !is_to_break(&page, huge, rules) || is_one_too_many(page, joins)) return;
    const Nanos taken{page.blocks_taken.load(std::memory_order_relaxed)};
    const Nanos cost = break_costs_.of(huge && !page.broken);
    const size_t gain = gain_of(&page);
    possible += gain;
    best.add({&page, worth_of_breaking(gain, now - taken, cost), joins});
  });
  broken_.store(in_pieces, std::memory_order_relaxed);
  runs_ = runs;
  size_t more = huge ? kAtOnce : kSmallAtOnce;
  for (const Candidate* one = best.begin(); one != best.end() && more != 0; ++one, --more)
    tried += break_one(one->page, one->joins, rules, huge, &done);
  done.left = less(possible, tried);
  unbacked_.store(unbacked + done.given_back, std::memory_order_relaxed);
  return done;
}

// If it were broken. Runs are also cut in two, by pages that fill again.
bool PageHeap::is_one_too_many(const HugePage& page, bool joins) const {
  if (page.broken) return false;
  const size_t most = page.used_blocks > kSparse ? most_runs_ / 2 : most_runs_;
  return (!joins && runs_ >= most) ||
         broken_.load(std::memory_order_relaxed) >= kMostOfRun * most_runs_;
}

// Returns how many bytes it tried to give back. The page may be another one by now, so all is asked
// again. Unless it joins a run, it counts as one of its own until the next round.
size_t PageHeap::break_one(HugePage* page, bool joins, const BreakRules& rules, bool huge,
                           Breaking* done) {
  PageSet* set = page->set.load(std::memory_order_acquire);
  if (set == nullptr) return 0;
  BlockBits rest;
  uint32_t backed;
  size_t gain;
  bool anew, is_whole;
  {
    LockGuard guard(set->lock());
    if (page->set.load(std::memory_order_relaxed) != set || !is_to_break(page, huge, rules))
      return 0;
    backed = page->backed_blocks();
    gain = gain_of(page);
    anew = page->broken;  // and has been filled and emptied since
    is_whole = !anew;     // also one from before the process lost its huge pages
    if (is_whole && split_watch_.is_resting()) return 0;
    if (gain > less(rules.limit, done->given_back) || is_one_too_many(*page, joins)) return 0;
    const uint32_t fuller = page->used_blocks + kFuller;
    page->mended_from = static_cast<uint16_t>(
        std::min(fuller, anew ? page->mended_from : uint32_t{kBlocksPerHugePage}));
    rest = set->take_rest(page);
    if (!anew) set->mark_broken(page, true);
  }
  const Nanos started = system_.now();
  const bool parted = !is_whole || part(page, rest);
  const bool gone = parted && give_rest_back(page, rest, backed);
  if (!parted) leave_whole(page, rest);
  const Nanos took = system_.now() - started;
  if (parted) break_costs_.broke(is_whole, took);
  done->break_time = done->break_time + took;
  if (is_whole && parted) {
    broken_.fetch_add(1, std::memory_order_relaxed);
    runs_ += !joins;
  }
  if (gone) {
    done->given_back += gain;
    done->pages += is_whole || !huge;
  } else {
    ++done->refused;
  }
  return gain;
}

// No lock is held meanwhile. A huge page would be filled again by the system, had it not been asked
// for small ones before.
bool PageHeap::part(HugePage* page, const BlockBits& rest) {
  const uint32_t first = rest.next(0, true);
  const size_t bytes = (rest.next(first, false) - first) * kBlockSize;
  system_.advise_huge(page->base, kHugePageSize, false);
  return split_watch_.part(system_, page->base + first * kBlockSize, bytes);
}

// The page could not be split: it is what it was. After the others it is tried again.
void PageHeap::leave_whole(HugePage* page, const BlockBits& rest) {
  system_.advise_huge(page->base, kHugePageSize, true);
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    const Nanos now = system_.now_coarse();
    set.mark_broken(page, false);
    page->blocks_taken.store(now.n, std::memory_order_relaxed);
    if (set.give_rest(page, rest, false)) pool_.put_empty(page, now);
  });
}

// No lock is held meanwhile. False: the system refused some of it.
bool PageHeap::give_rest_back(HugePage* page, const BlockBits& rest, uint32_t backed_before) {
  bool clean = true;
  for (uint32_t first = rest.next(0, true); first < kBlocksPerHugePage;) {
    const uint32_t end = rest.next(first, false);
    clean &= system_.discard(page->base + first * kBlockSize, (end - first) * kBlockSize);
    first = rest.next(end, true);
  }
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    const Nanos now = system_.now_coarse();
    if (!clean) page->blocks_taken.store(now.n, std::memory_order_relaxed);  // after the others
    const bool is_empty = set.give_rest(page, rest, clean);
    demand_.change_backed(int64_t{page->backed_blocks()} - backed_before, now);
    if (is_empty) pool_.put_empty(page, now);
  });
  return clean;
}

}  // namespace llamalloc
