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
constexpr size_t kAtOnce = 16;                        // of a set
// Each may split a mapping twice, and a process has 65,530 at most.
constexpr size_t kMostBroken = 4096;

struct Broken {
  HugePage* page;
  double score;  // free bytes x time at rest
  BlockBits rest;
  uint32_t backed;  // blocks of the page that may have memory
  size_t gain;      // bytes of the rest that may have memory
  bool anew;        // it was broken before, and has been filled and emptied since
};

// What was chosen of a set under its lock.
struct Chosen {
  Broken broken[kAtOnce];
  char* mended[kAtOnce];  // where they lie: without the lock, they may be emptied and given up
  size_t broken_count = 0, mended_count = 0;
  size_t candidates = 0;  // bytes
  int64_t filled = 0;     // blocks that the mended ones had given back
  size_t unbacked = 0;    // bytes that other broken pages, and these before now, had given back
};

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

void break_page(PageSet& set, Broken* chosen) REQUIRES(set.lock()) {
  HugePage* page = chosen->page;
  chosen->rest = set.take_rest(page);
  if (!page->broken) set.mark_broken(page, true);
}

// The best ones first; the worst leaves if there is no room.
void add_candidate(Chosen* chosen, HugePage* page, const BreakRules& rules) {
  Broken broken{.page = page,
                .score = 0,
                .rest = {},
                .backed = page->backed_blocks(),
                .gain = 0,
                .anew = page->broken};
  broken.gain = (broken.backed - page->used_blocks) * kBlockSize;
  const int64_t rest = rules.before.n - page->blocks_taken.load(std::memory_order_relaxed);
  broken.score = static_cast<double>(broken.gain) * (static_cast<double>(rest) + 1);
  chosen->candidates += broken.gain;
  size_t at = chosen->broken_count;
  if (at == kAtOnce && chosen->broken[--at].score >= broken.score) return;
  for (; at > 0 && chosen->broken[at - 1].score < broken.score; --at)
    chosen->broken[at] = chosen->broken[at - 1];
  chosen->broken[at] = broken;
  if (chosen->broken_count < kAtOnce) ++chosen->broken_count;
}

// Drops those beyond the limits. in_pieces: broken pages so far, these among them; without huge
// pages they split no mapping.
void keep_within(Chosen* chosen, bool huge, size_t* room, size_t* in_pieces) {
  size_t kept = 0;
  for (size_t i = 0; i < chosen->broken_count; ++i) {
    const Broken& broken = chosen->broken[i];
    if (broken.gain > *room || (huge && !broken.anew && *in_pieces >= kMostBroken)) continue;
    *room -= broken.gain;
    *in_pieces += !broken.anew;
    chosen->candidates -= broken.gain;
    chosen->broken[kept++] = broken;
  }
  chosen->broken_count = kept;
}

Chosen choose(PageSet& set, const BreakRules& rules, bool huge, bool may_break, size_t* room,
              size_t* in_pieces) {
  Chosen chosen;
  HugePage* to_mend[kAtOnce];
  LockGuard guard(set.lock());
  set.for_each([&](HugePage* page) {
    *in_pieces += page->broken;
    if (is_to_mend(page, huge) && chosen.mended_count < kAtOnce)
      to_mend[chosen.mended_count++] = page;
    else if (page->broken)
      chosen.unbacked += (kBlocksPerHugePage - page->dirty.count()) * kBlockSize;
    if (may_break && is_to_break(page, huge, rules)) add_candidate(&chosen, page, rules);
  });
  keep_within(&chosen, huge, room, in_pieces);
  for (size_t i = 0; i < chosen.mended_count; ++i) {
    chosen.mended[i] = to_mend[i]->base;
    chosen.filled += int64_t{kBlocksPerHugePage} - to_mend[i]->dirty.count();
    set.mark_broken(to_mend[i], false);
  }
  for (size_t i = 0; i < chosen.broken_count; ++i) break_page(set, &chosen.broken[i]);
  return chosen;
}

}  // namespace

Breaking PageHeap::break_sparse(const BreakRules& rules) {
  const bool huge = pool_.gets_huge_pages();
  split_watch_.begin_round();
  Breaking done;
  size_t in_pieces = 0, unbacked = 0, room = rules.limit;
  for (auto& row : sets_)
    for (PageSet& set : row) {
      if (!set.has_pages()) continue;
      const bool may_break = !huge || !split_watch_.is_resting();
      const Chosen chosen = choose(set, rules, huge, may_break, &room, &in_pieces);
      unbacked += chosen.unbacked;
      done.left += chosen.candidates;
      done.mended += chosen.mended_count;
      in_pieces -= chosen.mended_count;
      if (chosen.filled != 0) demand_.change(chosen.filled, 0, system_.now_coarse());
      const Nanos started = system_.now();
      for (size_t i = 0; i < chosen.mended_count; ++i) pool_.make_huge(chosen.mended[i]);
      const Nanos mended = chosen.mended_count != 0 ? system_.now() : started;
      done.mend_time = done.mend_time + (mended - started);
      for (size_t i = 0; i < chosen.broken_count; ++i) {
        const Broken& broken = chosen.broken[i];
        const bool parted = !huge || broken.anew || part(broken.page, broken.rest);
        const bool whole = parted ? give_rest_back(broken.page, broken.rest, broken.backed) : false;
        if (!parted) {
          leave_whole(broken.page, broken.rest);
          in_pieces -= huge;
        }
        if (whole) done.given_back += broken.gain;
        if (whole)
          done.pages += !huge || !broken.anew;
        else
          ++done.refused;
      }
      if (chosen.broken_count != 0) done.break_time = done.break_time + (system_.now() - mended);
    }
  broken_.store(in_pieces, std::memory_order_relaxed);
  unbacked_.store(unbacked + done.given_back, std::memory_order_relaxed);
  return done;
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
