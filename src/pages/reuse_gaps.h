// SPDX-License-Identifier: Apache-2.0
// How long freed memory waited until it was needed again: counts by powers of two of time. Memory
// that had gone back to the system meanwhile counts like memory that was kept, so the counts tell
// what longer or shorter holding would have saved.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

class ReuseGaps {
 public:
  static constexpr int kBuckets = 12;
  static constexpr Nanos kFirst = Nanos{62'500'000};  // bucket b: below kFirst x 2^b; the last: all

  void add(Nanos gap, size_t bytes) {
    counts_[bucket_of(gap)].fetch_add(bytes / kSmallPage, std::memory_order_relaxed);
  }
  // Bytes needed again after a gap of that bucket.
  uint64_t bytes(int bucket) const {
    return counts_[bucket].load(std::memory_order_relaxed) * kSmallPage;
  }
  static Nanos end_of(int bucket) { return Nanos{kFirst.n << bucket}; }
  static int bucket_of(Nanos gap) {
    const uint64_t firsts = gap.n <= 0 ? 0 : static_cast<uint64_t>(gap.n / kFirst.n);
    const int bucket = std::bit_width(firsts);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }

 private:
  std::atomic<uint64_t> counts_[kBuckets]{};  // small pages
};

}  // namespace llamalloc
