// SPDX-License-Identifier: Apache-2.0
#include "pages/huge_page.h"

#include <algorithm>

namespace llamalloc {

void BlockBits::change(uint32_t first, uint32_t n, bool value) {
  for (uint32_t w = first >> 6, bit = first & 63; n != 0; ++w, bit = 0) {
    const uint32_t part = std::min(n, 64 - bit);
    const uint64_t mask = ~uint64_t{0} >> (64 - part) << bit;
    words[w] = value ? words[w] | mask : words[w] & ~mask;
    n -= part;
  }
}

uint32_t BlockBits::next(uint32_t from, bool value) const {
  while (from < kBlocksPerHugePage) {
    const uint64_t word = value ? words[from >> 6] : ~words[from >> 6];
    const uint64_t rest = word >> (from & 63);
    if (rest) return from + static_cast<uint32_t>(std::countr_zero(rest));
    from = (from | 63) + 1;
  }
  return kBlocksPerHugePage;
}

bool BlockBits::any(uint32_t first, uint32_t n) const {
  return next(first, true) < first + n;
}

uint32_t BlockBits::count() const {
  uint32_t n = 0;
  for (uint64_t word : words) n += static_cast<uint32_t>(std::popcount(word));
  return n;
}

uint32_t BlockBits::find_clear(uint32_t n, uint32_t alignment) const {
  uint32_t start = 0;
  while (true) {
    start = static_cast<uint32_t>(align_up(next(start, false), alignment));
    if (start + n > kBlocksPerHugePage) return kBlocksPerHugePage;
    const uint32_t end = next(start, true);
    if (end >= start + n) return start;
    start = end;
  }
}

uint32_t BlockBits::start_of_clear(uint32_t i) const {
  uint64_t before = words[i >> 6] & ~(~uint64_t{0} << (i & 63));
  for (uint32_t w = i >> 6;; before = words[--w]) {
    if (before != 0) return w * 64 + static_cast<uint32_t>(std::bit_width(before));
    if (w == 0) return 0;
  }
}

uint32_t BlockBits::longest_clear() const {
  uint32_t longest = 0;
  for (uint32_t start = next(0, false); start < kBlocksPerHugePage;) {
    const uint32_t end = next(start, true);
    if (end - start > longest) longest = end - start;
    start = next(end, false);
  }
  return longest;
}

}  // namespace llamalloc
