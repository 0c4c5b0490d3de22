// SPDX-License-Identifier: Apache-2.0
#include "release/hold_time.h"

#include <algorithm>
#include <utility>

namespace llamalloc {
namespace {

double seconds_of(Nanos time) {
  return static_cast<double>(time.n) * 1e-9;
}

// A bucket whose end is within the hold is held long enough.
bool is_fetched(int bucket, Nanos hold) {
  return bucket == ReuseGaps::kBuckets - 1 || ReuseGaps::end_of(bucket) > hold;
}

}  // namespace

// The bytes that were fetched again since the last look.
double HoldTime::look(Nanos now, const ReuseGaps& gaps) {
  const double seconds = seconds_of(now - last_);
  const bool first = last_.n == 0;
  if (!first && seconds <= 0) return 0;
  last_ = now;
  const double kept = first ? 0 : kFade / (kFade + seconds);
  double fetched = 0;
  for (int b = 0; b < ReuseGaps::kBuckets; ++b) {
    const uint64_t bytes = gaps.bytes(b);
    const double more = first ? 0 : static_cast<double>(bytes - seen_[b]);
    seen_[b] = bytes;
    rates_[b] = rates_[b] * kept + (first ? 0 : more / seconds) * (1 - kept);
    if (is_fetched(b, hold_)) fetched += more;
  }
  lately_ = lately_ * kept + fetched;
  return fetched;
}

// Before look(), which notes the time. worked: since the last look, in seconds.
void HoldTime::look_at_rest(Nanos now, double worked) {
  const double seconds = seconds_of(now - last_);
  if (last_.n != 0 && seconds > 0) at_rest_ = worked < kRest * seconds;
}

// What was fetched of late cost what the last measurement says. The clock of a forked child begins
// anew.
void HoldTime::owe(double fetched, Nanos price, double worked) {
  const double dearer = seconds_of(price - std::exchange(price_, price));
  debt_ += (lately_ - fetched) / kHugePageSize * dearer;
  debt_ += fetched / kHugePageSize * seconds_of(price) - std::max(kShareOfWork * worked, 0.0);
  debt_ = std::clamp(debt_, 0.0, kMostDebt);
  in_debt_ = debt_ > (in_debt_ ? 0 : kCredit);
}

double HoldTime::share_at(Nanos hold) const {
  double rate = 0;
  for (int b = 0; b < ReuseGaps::kBuckets; ++b)
    if (is_fetched(b, hold)) rate += rates_[b];
  return rate / kHugePageSize * kFetchSeconds;
}

double HoldTime::kept_at(Nanos hold) const {
  double bytes = 0;
  for (int b = 0; b < ReuseGaps::kBuckets; ++b) {
    const Nanos end = ReuseGaps::end_of(b);
    bytes += rates_[b] * seconds_of(end < hold ? end : hold);
  }
  return bytes;
}

Nanos HoldTime::chosen(Nanos least, size_t most_extra) const {
  const bool pays = at_rest_ && debt_ <= kCreditAtRest;
  Nanos best = least;
  double best_share = share_at(least);
  const double enough = in_debt_ ? kShare * kFetchSeconds / seconds_of(price_) : kShare;
  const int most = in_debt_ && !pays ? kMostInDebt : kMostDoublings;
  for (int i = 1; i <= most && best_share > enough; ++i) {
    const Nanos hold{least.n << i};
    const double share = share_at(hold);
    const double extra = kept_at(hold) - kept_at(least);
    if (!in_debt_ && extra > static_cast<double>(most_extra)) break;
    if (share < best_share) best = hold, best_share = share;
  }
  return best;
}

Nanos HoldTime::step(Nanos now, const ReuseGaps& gaps, Nanos least, size_t most_extra,
                     const FetchWork& work) {
  const double worked = seconds_of(work.used - std::exchange(used_, work.used));
  look_at_rest(now, worked);
  owe(look(now, gaps), work.fetch, worked);
  return hold_ = chosen(least, most_extra);
}

}  // namespace llamalloc
