// SPDX-License-Identifier: Apache-2.0
// Huge pages that a few objects keep: what is free of them goes back to the system, and they are
// made huge again when they fill. In a process without huge pages nothing is lost by that: whatever
// is free of a page at rest goes back.
#include <algorithm>

#include "pages/page_heap.h"

namespace llamalloc {
namespace {

constexpr uint32_t kLittle = kBlocksPerHugePage / 8;  // used blocks
constexpr uint32_t kSparse = kBlocksPerHugePage / 4;  // at most
constexpr uint32_t kFull = kBlocksPerHugePage / 2;    // again worth a huge page
constexpr size_t kAtOnce = 16;                        // and mended of a set
// Each may split a mapping twice, and a process has 65,530 at most.
constexpr size_t kMostBroken = 4096;

struct Candidate {
  HugePage* page;
  double worth;
};

// What may be broken, the best first, of all sets. The stack may be small (malloc_trim).
struct Candidates {
  Candidate of[kAtOnce];
  size_t count = 0;
  size_t bytes = 0;  // of all, those that had no place among them, too

  void add(const Candidate& one, size_t gain) {
    bytes += gain;
    size_t at = count;
    if (at == kAtOnce && of[--at].worth >= one.worth) return;
    for (; at > 0 && of[at - 1].worth < one.worth; --at) of[at] = of[at - 1];
    of[at] = one;
    if (count < kAtOnce) ++count;
  }
};

// What a look at a set found.
struct Look {
  char* mended[kAtOnce];  // where they lie: without the lock, they may be emptied and given up
  size_t mended_count = 0;
  int64_t filled = 0;    // blocks that the mended ones had given back
  size_t in_pieces = 0;  // broken pages, without those
  size_t unbacked = 0;   // bytes that they had given back
};

size_t gain_of(const HugePage* page) {
  return (page->backed_blocks() - page->used_blocks) * kBlockSize;
}

bool is_to_mend(const HugePage* page, bool huge) {
  return huge && page->broken && page->used_blocks >= kFull;
}

// All its objects should be dead by then. One into whose spans others are placed meanwhile will not
// be empty.
bool is_empty_soon(const HugePage* page, const BreakRules& rules) {
  const int64_t deadline = row(page->group.load(std::memory_order_relaxed)).deadline.n;
  const int64_t taken = page->blocks_taken.load(std::memory_order_relaxed);
  return deadline > rules.now.n - taken && deadline <= rules.spared.n - taken;
}

// The more is in a page, the sooner it may fill again, and the more would lose its huge page.
bool is_at_rest(const HugePage* page, bool huge, const BreakRules& rules) {
  const double fill =
      huge && !page->broken ? std::max(1.0, page->used_blocks / double{kLittle}) : 1;
  const double longer = (fill * fill - 1) * static_cast<double>(rules.rest.n);
  return page->blocks_taken.load(std::memory_order_relaxed) <=
         rules.before.n - static_cast<int64_t>(longer);
}

bool is_to_break(const HugePage* page, bool huge, const BreakRules& rules) {
  if (is_to_mend(page, huge) || !is_at_rest(page, huge, rules)) return false;
  if (huge && is_empty_soon(page, rules)) return false;
  if (page->broken) return page->dirty.count() > page->used_blocks;
  return page->used_blocks <= (huge ? kSparse : kBlocksPerHugePage - 1);
}

Look look_at(PageSet& set, const BreakRules& rules, const BreakCosts& costs, bool huge,
             bool may_break, Candidates* candidates) {
  Look look;
  HugePage* to_mend[kAtOnce];
  LockGuard guard(set.lock());
  set.for_each([&](HugePage* page) {
    if (is_to_mend(page, huge) && look.mended_count < kAtOnce) {
      to_mend[look.mended_count++] = page;
    } else if (page->broken) {
      ++look.in_pieces;
      look.unbacked += (kBlocksPerHugePage - page->dirty.count()) * kBlockSize;
    }
    if (!may_break || !is_to_break(page, huge, rules)) return;
    const Nanos taken{page->blocks_taken.load(std::memory_order_relaxed)};
    const size_t gain = gain_of(page);
    const Nanos cost = costs.of(huge && !page->broken);
    candidates->add({page, worth_of_breaking(gain, rules.before - taken, cost)}, gain);
  });
  for (size_t i = 0; i < look.mended_count; ++i) {
    look.mended[i] = to_mend[i]->base;
    look.filled += int64_t{kBlocksPerHugePage} - to_mend[i]->dirty.count();
    set.mark_broken(to_mend[i], false);
  }
  return look;
}

}  // namespace

// First a look at all pages, so that the best ones are broken wherever they are.
Breaking PageHeap::break_sparse(const BreakRules& rules) {
  const bool huge = pool_.gets_huge_pages();
  split_watch_.begin_round();
  const bool may_break = !huge || !split_watch_.is_resting();
  Breaking done;
  Candidates candidates;
  size_t in_pieces = 0, unbacked = 0, tried = 0;
  for (auto& row : sets_)
    for (PageSet& set : row) {
      if (!set.has_pages()) continue;
      const Look look = look_at(set, rules, break_costs_, huge, may_break, &candidates);
      in_pieces += look.in_pieces;
      unbacked += look.unbacked;
      if (look.mended_count == 0) continue;
      done.mended += look.mended_count;
      if (look.filled != 0) demand_.change(look.filled, 0, system_.now_coarse());
      for (size_t i = 0; i < look.mended_count; ++i)
        done.mend_time =
            done.mend_time + timed(&break_costs_.mending, [&] { pool_.make_huge(look.mended[i]); });
    }
  for (size_t i = 0; i < candidates.count; ++i)
    tried += break_one(candidates.of[i].page, rules, huge, &in_pieces, &done);
  done.left = less(candidates.bytes, tried);
  broken_.store(in_pieces, std::memory_order_relaxed);
  unbacked_.store(unbacked + done.given_back, std::memory_order_relaxed);
  return done;
}

template <typename F>
Nanos PageHeap::timed(Nanos* mean, F&& f) {
  const Nanos started = system_.now();
  f();
  const Nanos took = system_.now() - started;
  BreakCosts::learn(mean, took);
  return took;
}

// Returns how many bytes it tried to give back. The page may be another one by now, so all is asked
// again.
size_t PageHeap::break_one(HugePage* page, const BreakRules& rules, bool huge, size_t* in_pieces,
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
    is_whole = huge && !anew;
    if (gain > less(rules.limit, done->given_back) || (is_whole && *in_pieces >= kMostBroken))
      return 0;
    rest = set->take_rest(page);
    if (!anew) set->mark_broken(page, true);
  }
  bool parted = true, gone = false;
  done->break_time = done->break_time + timed(&break_costs_.of_breaking(is_whole), [&] {
                       parted = !is_whole || part(page, rest);
                       gone = parted && give_rest_back(page, rest, backed);
                       if (!parted) leave_whole(page, rest);
                     });
  *in_pieces += !anew && parted;
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
  if (split_watch_.is_resting()) return false;
  const uint32_t first = rest.next(0, true);
  const size_t bytes = (rest.next(first, false) - first) * kBlockSize;
  system_.advise_huge(page->base, kHugePageSize, false);
  return split_watch_.part(system_, page->base + first * kBlockSize, bytes);
}

// The page could not be split: it is what it was.
void PageHeap::leave_whole(HugePage* page, const BlockBits& rest) {
  system_.advise_huge(page->base, kHugePageSize, true);
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    set.mark_broken(page, false);
    if (set.give_rest(page, rest, false)) pool_.put_empty(page, system_.now_coarse());
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
    const bool is_empty = set.give_rest(page, rest, clean);
    demand_.change(int64_t{page->backed_blocks()} - backed_before, 0, now);
    if (is_empty) pool_.put_empty(page, now);
  });
  return clean;
}

}  // namespace llamalloc
