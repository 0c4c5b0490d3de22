// SPDX-License-Identifier: Apache-2.0
// Judges releases that were skipped because demand was expected to come back: section 4.2 of
// "Adaptive Huge-Page Subrelease for Non-moving Memory Allocators" (ISMM 2021).
//
//   bytes of demand
//   high ------.  skipped: [low, high) could have been given back
//   mark ......|......    right so far: a later second used that much
//   low  ------'
//        -----------|-------------------> window is over: what is above the mark was wrong
//
// Skips of one moment lie below each other, each byte is judged once, and a skip may be right in
// part. At most kRecords are pending: skips close in time are joined, and of too many the oldest is
// judged early.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pages/demand_series.h"

namespace llamalloc {

class SkipTracker {
 public:
  static constexpr uint32_t kRecords = 128;

  // In the second `epoch`. Nothing if high <= low.
  void skip(uint32_t epoch, size_t low, size_t high, uint32_t window);
  // Looks at the seconds up to `last`, which are over. Called in order of time.
  void judge(const DemandSeries& series, uint32_t last, uint32_t window);

  // Bytes.
  uint64_t skipped() const { return skipped_; }
  uint64_t right() const { return right_; }
  uint64_t wrong() const { return wrong_; }
  uint64_t pending() const { return skipped_ - right_ - wrong_; }
  // Seconds after which demand came back, at most; fades over ten windows.
  double longest_wait() const { return longest_wait_; }

 private:
  struct Record {
    uint32_t epoch = 0;
    size_t low = 0, mark = 0, high = 0;
  };
  void join_or_add(const Record& skip, uint32_t window);
  void drop_oldest();
  Record& at(uint32_t n) { return records_[(first_ + n) % kRecords]; }

  Record records_[kRecords];
  uint32_t first_ = 0, count_ = 0;
  uint32_t judged_ = 0;  // the last second that was looked at
  double longest_wait_ = 0;
  uint64_t skipped_ = 0, right_ = 0, wrong_ = 0;
};

}  // namespace llamalloc
