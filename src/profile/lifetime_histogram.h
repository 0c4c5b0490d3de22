// SPDX-License-Identifier: Apache-2.0
// Log histogram of lifetimes: four buckets a doubling (contracts/profile_format.md).
//
//   bucket b holds t with floor(4 log2(t / 1 ns)) = b; t < 1 ns counts as 1 ns
//   1 ns -> 0   2 ns -> 4   1 us -> 39   1 ms -> 79   1 s -> 119   1 h -> 166   2^63 - 1 -> 251
//
// Counts are kept in pages of 64 buckets (16 doublings), made when first used: lifetimes of one
// context mostly fall into one or two of them. Exact: no floating point.
#pragma once

#include <bit>
#include <cstdint>

#include "base/units.h"
#include "os/arena.h"

namespace llamalloc {

inline constexpr int kLifetimeBuckets = 252;

constexpr int lifetime_bucket(Nanos lifetime) {
  const uint64_t t = lifetime.n < 1 ? 1 : static_cast<uint64_t>(lifetime.n);
  const int doublings = std::bit_width(t) - 1;
  const uint64_t m = t << (63 - doublings);  // mantissa, top bit set
  // 2^63 times 2^(1/4), 2^(2/4), 2^(3/4), rounded up: m is an integer, so the test is exact.
  const int quarters =
      (m >= 0x9837F0518DB8A970) + (m >= 0xB504F333F9DE6485) + (m >= 0xD744FCCAD69D6AF5);
  return 4 * doublings + quarters;
}
static_assert(lifetime_bucket({0}) == 0 && lifetime_bucket({2}) == 4 && lifetime_bucket({3}) == 6);
static_assert(lifetime_bucket({1000}) == 39 && lifetime_bucket({1000000000}) == 119);
static_assert(lifetime_bucket({INT64_MAX}) == kLifetimeBuckets - 1);

// The shortest lifetime of a bucket, up to rounding.
constexpr Nanos shortest_lifetime(int bucket) {
  constexpr uint64_t kQuarters[] = {1000, 1189, 1414, 1682};
  const uint64_t thousandths = kQuarters[bucket % 4];
  const int doublings = bucket / 4;
  const uint64_t t = doublings < 40 ? (thousandths << doublings) / 1000
                                    : (thousandths << (doublings - 12)) / 1000 << 12;
  return {static_cast<int64_t>(t)};
}

class LifetimeHistogram {
 public:
  // False: no memory for the page.
  bool add(MetadataArena& arena, Nanos lifetime) {
    const int bucket = lifetime_bucket(lifetime);
    uint32_t*& page = pages_[bucket / kPage];
    if (page == nullptr) page = arena.make_array<uint32_t>(kPage);
    if (page == nullptr) return false;
    ++page[bucket % kPage];
    return true;
  }
  uint32_t count(int bucket) const {
    const uint32_t* page = pages_[bucket / kPage];
    return page == nullptr ? 0 : page[bucket % kPage];
  }
  // Takes away what an earlier copy of it held.
  void subtract(const LifetimeHistogram& before) {
    for (int p = 0; p < kPages; ++p)
      for (int i = 0; before.pages_[p] != nullptr && i < kPage; ++i)
        pages_[p][i] -= before.pages_[p][i];
  }
  void clear() {
    for (uint32_t* page : pages_)
      for (int i = 0; page != nullptr && i < kPage; ++i) page[i] = 0;
  }
  // Makes *to a copy with pages of its own; false: no memory.
  bool copy(MetadataArena& arena, LifetimeHistogram* to) const {
    for (int p = 0; p < kPages; ++p) {
      to->pages_[p] = pages_[p] == nullptr ? nullptr : arena.make_array<uint32_t>(kPage);
      if (pages_[p] == nullptr) continue;
      if (to->pages_[p] == nullptr) return false;
      for (int i = 0; i < kPage; ++i) to->pages_[p][i] = pages_[p][i];
    }
    return true;
  }

 private:
  static constexpr int kPage = 64;
  static constexpr int kPages = (kLifetimeBuckets + kPage - 1) / kPage;

  uint32_t* pages_[kPages] = {};
};

}  // namespace llamalloc
