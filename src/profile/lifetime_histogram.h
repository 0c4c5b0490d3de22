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
    Page* page = find(bucket / kPage);
    if (page == nullptr) page = add_page(arena, bucket / kPage);
    if (page == nullptr) return false;
    ++page->counts[bucket % kPage];
    return true;
  }
  // False: there is none to take back.
  bool remove(Nanos lifetime) {
    const int bucket = lifetime_bucket(lifetime);
    if (count(bucket) == 0) return false;
    --find(bucket / kPage)->counts[bucket % kPage];
    return true;
  }
  uint32_t count(int bucket) const {
    const Page* page = find(bucket / kPage);
    return page == nullptr ? 0 : page->counts[bucket % kPage];
  }
  // Takes away what an earlier copy of it held.
  void subtract(const LifetimeHistogram& before) {
    for (const Page* theirs = before.first_; theirs != nullptr; theirs = theirs->next) {
      Page* mine = find(theirs->number);
      for (int i = 0; mine != nullptr && i < kPage; ++i) mine->counts[i] -= theirs->counts[i];
    }
  }
  void clear() {
    for (Page* page = first_; page != nullptr; page = page->next)
      for (uint32_t& count : page->counts) count = 0;
  }
  // Makes *to a copy with pages of its own; false: no memory.
  bool copy(MetadataArena& arena, LifetimeHistogram* to) const {
    to->first_ = nullptr;
    for (const Page* page = first_; page != nullptr; page = page->next) {
      Page* mine = to->add_page(arena, page->number);
      if (mine == nullptr) return false;
      for (int i = 0; i < kPage; ++i) mine->counts[i] = page->counts[i];
    }
    return true;
  }

 private:
  static constexpr int kPage = 12;
  // So many buckets that one was seen in. Most contexts need one or two.
  struct Page {
    Page* next;
    int number;
    uint32_t counts[kPage];
  };
  static_assert(sizeof(Page) == 64);

  Page* find(int number) const {
    Page* page = first_;
    while (page != nullptr && page->number != number) page = page->next;
    return page;
  }
  Page* add_page(MetadataArena& arena, int number) {
    Page* page = arena.make_array<Page>(1);
    if (page == nullptr) return nullptr;
    page->next = first_;
    page->number = number;
    return first_ = page;
  }

  Page* first_ = nullptr;
};

}  // namespace llamalloc
