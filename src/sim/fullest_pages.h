// SPDX-License-Identifier: Apache-2.0
// A set of huge pages that uses the fullest page first; the same functions as PageSet.
//
//   lists_[used blocks]: pages in no order; `not_empty_` has a bit for each list that has any
//
// Takes the fullest page whose longest run of free blocks is long enough. Only the first few pages
// of each list are tried.
#pragma once

#include <bit>

#include "pages/huge_page.h"
#include "pages/page_set.h"

namespace llamalloc::sim {

class FullestPages {
 public:
  using Place = PageSet::Place;

  Place take(Blocks blocks, uint32_t alignment) {
    HugePage* page = fullest_fit(blocks, alignment);
    if (page == nullptr) return {};
    unlink(page);
    return take_from(page, blocks, alignment);
  }
  Place take_first(HugePage* page, Blocks blocks) { return take_from(page, blocks, 1); }
  // True if the page is now empty and no longer here.
  bool give_back(HugePage* page, uint32_t first, Blocks blocks) {
    unlink(page);
    page->used.clear(first, blocks.n);
    update(page);
    if (page->used_blocks == 0) return true;
    link(page);
    return false;
  }

 private:
  static constexpr int kLooks = 8;

  HugePage* fullest_fit(Blocks blocks, uint32_t alignment) const {
    for (int word = kWords - 1; word >= 0; --word)
      for (uint64_t left = not_empty_[word]; left != 0;) {
        const int bit = 63 - std::countl_zero(left);
        left &= ~(uint64_t{1} << bit);
        HugePage* page = lists_[word * 64 + bit];
        for (int i = 0; page && i < kLooks; ++i, page = page->newer)
          if (fits(page, blocks, alignment)) return page;
      }
    return nullptr;
  }
  static bool fits(const HugePage* page, Blocks blocks, uint32_t alignment) {
    return page->longest_run >= blocks.n &&
           (alignment <= 1 || page->used.find_clear(blocks.n, alignment) != kBlocksPerHugePage);
  }
  Place take_from(HugePage* page, Blocks blocks, uint32_t alignment) {
    const uint32_t first = page->used.find_clear(blocks.n, alignment);
    page->used.set(first, blocks.n);
    update(page);
    link(page);
    return {page, first, false};
  }
  static void update(HugePage* page) {
    page->used_blocks = static_cast<uint16_t>(page->used.count());
    page->longest_run = static_cast<uint16_t>(page->used.longest_clear());
  }
  // `older` and `newer` chain the page in its list, as they chain empty pages in the pool.
  void link(HugePage* page) {
    HugePage*& head = lists_[page->used_blocks];
    page->older = nullptr;
    page->newer = head;
    if (head) head->older = page;
    head = page;
    not_empty_[page->used_blocks >> 6] |= uint64_t{1} << (page->used_blocks & 63);
  }
  void unlink(HugePage* page) {
    HugePage*& head = lists_[page->used_blocks];
    (page->older ? page->older->newer : head) = page->newer;
    if (page->newer) page->newer->older = page->older;
    if (head == nullptr)
      not_empty_[page->used_blocks >> 6] &= ~(uint64_t{1} << (page->used_blocks & 63));
  }

  static constexpr int kWords = kBlocksPerHugePage / 64 + 1;
  HugePage* lists_[kBlocksPerHugePage + 1] = {};
  uint64_t not_empty_[kWords] = {};
};

}  // namespace llamalloc::sim
