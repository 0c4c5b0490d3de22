// SPDX-License-Identifier: Apache-2.0
// Tracks which parts of the heap's address space the system would back with memory.
//
//   touch: the 4 KiB pages of the range, and their 2 MiB pages, are backed from now on
//   discard: a 2 MiB page is no longer backed
//
// The paper's figure 1 compares two numbers: the same touches counted in pages of 4 KiB and of 2
// MiB. Both come from here. Pages that the heap keeps on small pages (PagePool's first ones) count
// as 2 MiB in the second number; `resident_bytes` counts only their touched part.
// Invariant: touched_ is the sum of the pages' counts; a page without a touched bit is not backed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace llamalloc::sim {

// Addresses in a simulation are offsets: the heap's space below this one, direct mappings above.
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
  // The same for some 4 KiB pages of a page that is not empty and stays on small pages.
  void discard_part(uint64_t offset, uint64_t bytes);
  // Whether the page stays on 4 KiB pages.
  void keep_small(size_t huge_page, bool small);

  size_t backed_pages() const { return backed_; }
  size_t touched_bytes() const { return touched_ * kSmallPage; }
  // Resident bytes of a process that gets huge pages wherever the heap asks for them.
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
