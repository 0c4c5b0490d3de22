// SPDX-License-Identifier: Apache-2.0
// Which memory the system would have put behind the heap's address space.
//
//   touch: the 4 KiB pages of the range, and their 2 MiB pages, are backed from now on
//   discard: a 2 MiB page is backed no longer
//
// The two figures of the paper's figure 1 come from it: the same touches counted in pages of 4 KiB
// and of 2 MiB. Pages that the heap wants small (PagePool's first ones) count as 2 MiB in the
// second and as what was touched in `resident_bytes`.
// Invariant: touched_ is the sum of the pages' counts; a page without a touched bit is not backed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace llamalloc::sim {

// Addresses in a simulation are offsets. Below: the heap's space; above: mappings of their own.
inline constexpr uint64_t kDirectBase = uint64_t{1} << 40;
inline constexpr uint64_t kNoAddress = ~uint64_t{0};
inline constexpr size_t kSmallPagesPerHuge = kHugePageSize / kSmallPage;

class PageLedger {
 public:
  // An object of `bytes` > 0 bytes at `offset` < kDirectBase is written to.
  void touch(uint64_t offset, uint64_t bytes) {
    const uint64_t first = offset >> kSmallShift;
    const uint64_t last = (offset + bytes - 1) >> kSmallShift;
    if (first == last && (first >> kPerHugeShift) < pages_.size() && is_touched(first)) return;
    touch_range(first, last);
  }
  void discard(size_t huge_page);
  // The same for whole 4 KiB pages of one that is not empty otherwise, and kept small.
  void discard_part(uint64_t offset, uint64_t bytes);
  // Whether the page stays on 4 KiB pages.
  void keep_small(size_t huge_page, bool small);

  size_t backed_pages() const { return backed_; }
  size_t touched_bytes() const { return touched_ * kSmallPage; }
  // What a process would have resident, with huge pages wherever the heap wants them.
  size_t resident_bytes() const {
    return (backed_ - small_backed_) * kHugePageSize + small_touched_ * kSmallPage;
  }
  size_t huge_bytes() const { return (backed_ - small_backed_) * kHugePageSize; }
  // Pages taken from the system, counting every time.
  size_t acquired() const { return acquired_; }
  size_t page_count() const { return pages_.size(); }
  bool is_backed(size_t huge_page) const {
    return huge_page < pages_.size() && pages_[huge_page].count > 0;
  }
  bool is_consistent() const;

 private:
  static constexpr int kSmallShift = 12;
  static constexpr int kPerHugeShift = 9;
  struct Page {
    uint64_t touched[kSmallPagesPerHuge / 64] = {};
    uint16_t count = 0;
    bool small = false;
  };

  bool is_touched(uint64_t small_page) const {
    const uint64_t i = small_page & (kSmallPagesPerHuge - 1);
    return pages_[small_page >> kPerHugeShift].touched[i >> 6] >> (i & 63) & 1;
  }
  void touch_range(uint64_t first, uint64_t last);
  void touch_in_page(Page& page, uint64_t first, uint64_t last);

  std::vector<Page> pages_;
  size_t backed_ = 0;
  size_t touched_ = 0;  // 4 KiB pages
  size_t small_backed_ = 0;
  size_t small_touched_ = 0;
  size_t acquired_ = 0;
};

}  // namespace llamalloc::sim
