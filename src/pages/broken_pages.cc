// SPDX-License-Identifier: Apache-2.0
// Huge pages that a few objects keep: what is free of them goes back to the system, and they are
// made huge again when they fill.
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
};

// What was chosen of a set under its lock.
struct Chosen {
  Broken broken[kAtOnce];
  HugePage* mended[kAtOnce];
  size_t broken_count = 0, mended_count = 0;
};

// in_pieces: broken pages so far, these among them.
Chosen choose(PageSet& set, Nanos before, size_t* in_pieces) {
  Chosen chosen;
  LockGuard guard(set.lock());
  set.for_each([&](HugePage* page) {
    *in_pieces += page->broken;
    if (page->broken && page->used_blocks >= kFull && chosen.mended_count < kAtOnce)
      chosen.mended[chosen.mended_count++] = page;
    if (page->broken || page->used_blocks > kLittle || chosen.broken_count == kAtOnce) return;
    if (*in_pieces >= kMostBroken || page->last_taken.load(std::memory_order_relaxed) > before.n)
      return;
    ++*in_pieces;
    chosen.broken[chosen.broken_count++].page = page;
  });
  for (size_t i = 0; i < chosen.mended_count; ++i) chosen.mended[i]->broken = false;
  for (size_t i = 0; i < chosen.broken_count; ++i) {
    chosen.broken[i].page->broken = true;
    chosen.broken[i].rest = set.take_rest(chosen.broken[i].page);
  }
  return chosen;
}

}  // namespace

size_t PageHeap::break_idle(Nanos before) {
  size_t in_pieces = 0, given_back = 0;
  for (auto& row : sets_)
    for (PageSet& set : row) {
      if (!set.has_pages()) continue;
      const Chosen chosen = choose(set, before, &in_pieces);
      for (size_t i = 0; i < chosen.mended_count; ++i) pool_.make_huge(chosen.mended[i]);
      for (size_t i = 0; i < chosen.broken_count; ++i)
        given_back += give_rest_back(chosen.broken[i].page, chosen.broken[i].rest);
    }
  return given_back;
}

// Small pages first: a huge one would be filled again by the system. No lock is held meanwhile.
size_t PageHeap::give_rest_back(HugePage* page, const BlockBits& rest) {
  system_.advise_huge(page->base, kHugePageSize, false);
  size_t bytes = 0;
  bool clean = true;
  for (uint32_t first = rest.next(0, true); first < kBlocksPerHugePage;) {
    const uint32_t end = rest.next(first, false);
    const size_t length = (end - first) * kBlockSize;
    if (system_.discard(page->base + first * kBlockSize, length))
      bytes += length;
    else
      clean = false;
    first = rest.next(end, true);
  }
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    if (set.give_rest(page, rest, clean)) pool_.put_empty(page, system_.now_coarse());
  });
  return bytes;
}

}  // namespace llamalloc
