// SPDX-License-Identifier: Apache-2.0
// Huge pages that a few objects keep: what is free of them goes back to the system, and they are
// made huge again when they fill. In a process without huge pages nothing is lost by that: whatever
// is free of a page at rest goes back.
#include "pages/page_heap.h"

namespace llamalloc {
namespace {

constexpr uint32_t kLittle = kBlocksPerHugePage / 8;  // used blocks
constexpr uint32_t kFull = kBlocksPerHugePage / 2;    // again worth a huge page
constexpr size_t kAtOnce = 16;                        // of a set
// Each may split a mapping twice, and a process has 65,530 at most.
constexpr size_t kMostBroken = 4096;

struct Broken {
  HugePage* page;
  BlockBits rest;
  size_t backed;  // bytes of the rest that may have memory
};

// What was chosen of a set under its lock.
struct Chosen {
  Broken broken[kAtOnce];
  HugePage* mended[kAtOnce];
  size_t broken_count = 0, mended_count = 0;
  size_t unbacked = 0;  // bytes that other broken pages, and these before now, had given back
};

bool is_to_mend(const HugePage* page, bool huge) {
  return huge && page->broken && page->used_blocks >= kFull;
}

bool is_to_break(const HugePage* page, bool huge, Nanos before) {
  if (page->last_taken.load(std::memory_order_relaxed) > before.n) return false;
  if (!huge && page->broken) return page->dirty.count() > page->used_blocks;
  return !page->broken && page->used_blocks <= (huge ? kLittle : kBlocksPerHugePage - 1);
}

void break_page(PageSet& set, Broken* chosen) REQUIRES(set.lock()) {
  HugePage* page = chosen->page;
  const uint32_t backed = page->broken ? page->dirty.count() : kBlocksPerHugePage;
  chosen->backed = (backed - page->used_blocks) * kBlockSize;
  chosen->rest = set.take_rest(page);
  page->broken = true;
}

// in_pieces: broken pages so far, these among them; without huge pages they split no mapping.
Chosen choose(PageSet& set, Nanos before, bool huge, size_t* in_pieces) {
  Chosen chosen;
  LockGuard guard(set.lock());
  set.for_each([&](HugePage* page) {
    *in_pieces += page->broken;
    if (is_to_mend(page, huge) && chosen.mended_count < kAtOnce)
      chosen.mended[chosen.mended_count++] = page;
    else if (page->broken)
      chosen.unbacked += (kBlocksPerHugePage - page->dirty.count()) * kBlockSize;
    if (chosen.broken_count == kAtOnce || !is_to_break(page, huge, before)) return;
    if (huge && *in_pieces >= kMostBroken) return;
    ++*in_pieces;
    chosen.broken[chosen.broken_count++].page = page;
  });
  for (size_t i = 0; i < chosen.mended_count; ++i) chosen.mended[i]->broken = false;
  for (size_t i = 0; i < chosen.broken_count; ++i) break_page(set, &chosen.broken[i]);
  return chosen;
}

}  // namespace

size_t PageHeap::break_idle(Nanos before) {
  const bool huge = pool_.gets_huge_pages();
  size_t in_pieces = 0, given_back = 0, unbacked = 0;
  for (auto& row : sets_)
    for (PageSet& set : row) {
      if (!set.has_pages()) continue;
      const Chosen chosen = choose(set, before, huge, &in_pieces);
      unbacked += chosen.unbacked;
      in_pieces -= chosen.mended_count;
      for (size_t i = 0; i < chosen.mended_count; ++i) pool_.make_huge(chosen.mended[i]);
      for (size_t i = 0; i < chosen.broken_count; ++i) {
        const Broken& broken = chosen.broken[i];
        if (huge) system_.advise_huge(broken.page->base, kHugePageSize, false);
        if (give_rest_back(broken.page, broken.rest)) given_back += broken.backed;
      }
    }
  broken_.store(in_pieces, std::memory_order_relaxed);
  unbacked_.store(unbacked + given_back, std::memory_order_relaxed);
  return given_back;
}

// No lock is held meanwhile. A huge page would be filled again by the system, had it not been asked
// for small ones before. False: the system refused some of it.
bool PageHeap::give_rest_back(HugePage* page, const BlockBits& rest) {
  bool clean = true;
  for (uint32_t first = rest.next(0, true); first < kBlocksPerHugePage;) {
    const uint32_t end = rest.next(first, false);
    clean &= system_.discard(page->base + first * kBlockSize, (end - first) * kBlockSize);
    first = rest.next(end, true);
  }
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    if (set.give_rest(page, rest, clean)) pool_.put_empty(page, system_.now_coarse());
  });
  return clean;
}

}  // namespace llamalloc
