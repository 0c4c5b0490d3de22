// SPDX-License-Identifier: Apache-2.0
#include "policy/hold_time.h"

namespace llamalloc {

void HoldTime::look(Nanos now, const ReuseGaps& gaps) {
  const double seconds = static_cast<double>(now.n - last_.n) * 1e-9;
  const bool first = last_.n == 0;
  if (!first && seconds <= 0) return;
  last_ = now;
  const double kept = first ? 0 : kFade / (kFade + seconds);
  for (int b = 0; b < ReuseGaps::kBuckets; ++b) {
    const uint64_t bytes = gaps.bytes(b);
    const double rate = first ? 0 : static_cast<double>(bytes - seen_[b]) / seconds;
    seen_[b] = bytes;
    rates_[b] = rates_[b] * kept + rate * (1 - kept);
  }
}

// A bucket whose end is within the hold is held long enough.
double HoldTime::share_at(Nanos hold) const {
  double rate = 0;
  for (int b = 0; b < ReuseGaps::kBuckets; ++b)
    if (b == ReuseGaps::kBuckets - 1 || ReuseGaps::end_of(b) > hold) rate += rates_[b];
  return rate / kHugePageSize * kFetchSeconds;
}

double HoldTime::kept_at(Nanos hold) const {
  double bytes = 0;
  for (int b = 0; b < ReuseGaps::kBuckets; ++b) {
    const Nanos end = ReuseGaps::end_of(b);
    bytes += rates_[b] * static_cast<double>(end < hold ? end.n : hold.n) * 1e-9;
  }
  return bytes;
}

Nanos HoldTime::step(Nanos now, const ReuseGaps& gaps, Nanos least, size_t most_extra) {
  look(now, gaps);
  Nanos best = least;
  double best_share = share_at(least);
  for (int i = 1; i <= kMostDoublings && best_share > kShare; ++i) {
    const Nanos hold{least.n << i};
    const double share = share_at(hold);
    if (kept_at(hold) - kept_at(least) > static_cast<double>(most_extra)) break;
    if (share < best_share) best = hold, best_share = share;
  }
  return best;
}

}  // namespace llamalloc
