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

// The shortest time in a bucket.
constexpr Nanos least_in_bucket(int bucket) {
  int64_t low = 0, high = INT64_MAX;  // the bucket of high is `bucket` or a later one
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (lifetime_bucket({middle}) >= bucket)
      high = middle;
    else
      low = middle + 1;
  }
  return {low};
}
static_assert(least_in_bucket(4).n == 2 && least_in_bucket(6).n == 3);

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
  // False: there is none to take back.
  bool remove(Nanos lifetime) {
    const int bucket = lifetime_bucket(lifetime);
    if (count(bucket) == 0) return false;
    --pages_[bucket / kPage][bucket % kPage];
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
