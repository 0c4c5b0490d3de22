// SPDX-License-Identifier: Apache-2.0
#include "sim/page_ledger.h"

#include <bit>

namespace llamalloc::sim {

void PageLedger::touch_range(uint64_t first, uint64_t last) {
  const uint64_t last_huge = last >> kPerHugeShift;
  if (last_huge >= pages_.size()) pages_.resize(last_huge + 1);
  while (first <= last) {
    const uint64_t huge = first >> kPerHugeShift;
    const uint64_t end = ((huge + 1) << kPerHugeShift) - 1;
    const uint64_t stop = end < last ? end : last;
    touch_in_page(pages_[huge], first & (kSmallPagesPerHuge - 1), stop & (kSmallPagesPerHuge - 1));
    first = stop + 1;
  }
}

void PageLedger::touch_in_page(Page& page, uint64_t first, uint64_t last) {
  size_t more = 0;
  for (uint64_t w = first >> 6; w <= last >> 6; ++w) {
    uint64_t mask = ~uint64_t{0};
    if (w == first >> 6) mask &= ~uint64_t{0} << (first & 63);
    if (w == last >> 6) mask &= ~uint64_t{0} >> (63 - (last & 63));
    more += static_cast<size_t>(std::popcount(mask & ~page.touched[w]));
    page.touched[w] |= mask;
  }
  if (more == 0) return;
  if (page.count == 0) {
    ++backed_;
    ++acquired_;
    small_backed_ += page.small;
  }
  page.count = static_cast<uint16_t>(page.count + more);
  touched_ += more;
  if (page.small) small_touched_ += more;
}

void PageLedger::discard(size_t huge_page) {
  if (!is_backed(huge_page)) return;
  Page& page = pages_[huge_page];
  --backed_;
  touched_ -= page.count;
  if (page.small) {
    --small_backed_;
    small_touched_ -= page.count;
  }
  const bool small = page.small;
  page = {};
  page.small = small;
}

void PageLedger::discard_part(uint64_t offset, uint64_t bytes) {
  const uint64_t huge_page = offset >> kHugePageShift;
  if (!is_backed(huge_page)) return;
  Page& page = pages_[huge_page];
  size_t fewer = 0;
  for (uint64_t at = offset; at < offset + bytes; at += kSmallPage) {
    const uint64_t i = (at >> kSmallShift) & (kSmallPagesPerHuge - 1);
    fewer += page.touched[i >> 6] >> (i & 63) & 1;
    page.touched[i >> 6] &= ~(uint64_t{1} << (i & 63));
  }
  page.count = static_cast<uint16_t>(page.count - fewer);
  touched_ -= fewer;
  if (page.small) small_touched_ -= fewer;
  if (page.count != 0) return;
  --backed_;
  small_backed_ -= page.small;
}

void PageLedger::keep_small(size_t huge_page, bool small) {
  if (huge_page >= pages_.size()) pages_.resize(huge_page + 1);
  Page& page = pages_[huge_page];
  if (page.small == small) return;
  page.small = small;
  if (page.count == 0) return;
  small_backed_ += small ? 1 : -1;
  small_touched_ += small ? page.count : -page.count;
}

bool PageLedger::is_consistent() const {
  size_t backed = 0, touched = 0, small_backed = 0, small_touched = 0;
  for (const Page& page : pages_) {
    size_t count = 0;
    for (uint64_t word : page.touched) count += static_cast<size_t>(std::popcount(word));
    if (count != page.count) return false;
    backed += count > 0;
    touched += count;
    small_backed += page.small && count > 0;
    small_touched += page.small ? count : 0;
  }
  return backed == backed_ && touched == touched_ && small_backed == small_backed_ &&
         small_touched == small_touched_;
}

}  // namespace llamalloc::sim
