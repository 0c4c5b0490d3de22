// SPDX-License-Identifier: Apache-2.0
#include "release/skip_tracker.h"

#include <algorithm>

namespace llamalloc {

void SkipTracker::skip(uint32_t epoch, size_t low, size_t high, uint32_t window) {
  if (high <= low) return;
  skipped_ += high - low;
  join_or_add({.epoch = epoch, .low = low, .mark = low, .high = high}, window);
}

void SkipTracker::join_or_add(const Record& skip, uint32_t window) {
  if (count_ > 0) {
    Record& last = at(count_ - 1);
    const bool is_close = skip.epoch - last.epoch <= window / (kRecords / 2);
    if (is_close && last.mark == last.low && skip.high == last.low) {
      last.low = last.mark = skip.low;
      return;
    }
  }
  if (count_ == kRecords) drop_oldest();
  at(count_++) = skip;
}

// What was not confirmed was wrong.
void SkipTracker::drop_oldest() {
  wrong_ += at(0).high - at(0).mark;
  first_ = (first_ + 1) % kRecords;
  --count_;
}

// A skip is judged by the later seconds of its window only: the peak that led to it may be in its
// own, and after a long sleep what came after the window must not count.
void SkipTracker::judge(const DemandSeries& series, uint32_t last, uint32_t window) {
  if (last <= judged_) return;
  const double passed = static_cast<double>(last - judged_) / (10.0 * window);
  longest_wait_ *= passed < 1 ? 1 - passed : 0;
  for (uint32_t i = 0; i < count_; ++i) {
    Record& record = at(i);
    const uint32_t seen = std::max(judged_, record.epoch);
    const uint32_t end = std::min(last, record.epoch + window);
    if (seen >= end) continue;
    const size_t used = series.range_of(seen + 1, end).most_used;
    const size_t reached = used < record.high ? used : record.high;
    if (reached <= record.mark) continue;
    right_ += reached - record.mark;
    const double wait = end - record.epoch;
    if (wait > longest_wait_) longest_wait_ = wait;
    record.mark = reached;
  }
  judged_ = last;
  while (count_ > 0 && last - at(0).epoch >= window && last > at(0).epoch) drop_oldest();
}

}  // namespace llamalloc
