// SPDX-License-Identifier: Apache-2.0
#include "profile/live_history.h"

namespace llamalloc {

bool LiveHistory::start(MetadataArena& arena) {
  if (points_ == nullptr) points_ = arena.make_array<LivePoint>(kPoints);
  return points_ != nullptr;
}

LiveHistory::Sum* LiveHistory::sum_of(MetadataArena& arena, uint32_t context) {
  // Zero is an empty array, and the arena gives zeros: pages are touched as they are used.
  if (sums_ == nullptr) sums_ = arena.make_array<Sums>(1);
  if (sums_ == nullptr) return nullptr;
  while (sums_->size() <= context)
    if (!sums_->push(arena, Sum{})) return nullptr;
  Sum& sum = (*sums_)[context];
  if (sum.generation != generation_) sum = {0, 0, peaks_, generation_};
  return &sum;
}

void LiveHistory::change(MetadataArena& arena, uint32_t context, double bytes, Nanos now) {
  if (!is_on()) return;
  last_ = now < last_ ? last_ : now;
  if (next_ <= now) take_point(now);
  Sum* const sum = sum_of(arena, context);
  if (sum == nullptr) return;
  if (sum->noted != peaks_) sum->at_peak = sum->live;
  sum->noted = peaks_;
  const double live = sum->live + bytes;
  total_ += (live < 0 ? 0 : live) - sum->live;
  sum->live = live < 0 ? 0 : live;
  if (total_ <= peak_) return;
  peak_ = total_;
  peak_at_ = last_;
  ++peaks_;
}

double LiveHistory::live(uint32_t context) const {
  return knows(context) ? (*sums_)[context].live : 0;
}

double LiveHistory::at_peak(uint32_t context) const {
  if (!knows(context)) return 0;
  const Sum& sum = (*sums_)[context];
  return sum.noted == peaks_ ? sum.at_peak : sum.live;
}

// What holds since the last change.
void LiveHistory::take_point(Nanos now) {
  if (count_ == kPoints) thin();
  points_[count_++] = point_of(now);
  next_ = now + step_;
}

LivePoint LiveHistory::point_of(Nanos now) const {
  LivePoint point{now, total_, 0, {}};
  for (uint32_t context = 0; context < size(); ++context) {
    const float bytes = static_cast<float>(live(context));
    if (bytes < 1) continue;
    uint32_t at = point.count;
    if (at == LivePoint::kLargest && bytes <= point.largest[at - 1].bytes) continue;
    at == LivePoint::kLargest ? --at : ++point.count;
    for (; at != 0 && point.largest[at - 1].bytes < bytes; --at)
      point.largest[at] = point.largest[at - 1];
    point.largest[at] = {context, bytes};
  }
  return point;
}

void LiveHistory::thin() {
  for (uint32_t i = 0; 2 * i < count_; ++i) points_[i] = points_[2 * i];
  count_ = (count_ + 1) / 2;
  step_ = step_ + step_;
}

void LiveHistory::clear() {
  ++generation_;
  total_ = peak_ = 0;
  peak_at_ = next_ = {};
  count_ = 0;
  step_ = kFirstStep;
}

bool LiveHistory::is_consistent() const {
  double now = 0, at_peak_sum = 0;
  for (uint32_t i = 0; i < size(); ++i) now += live(i), at_peak_sum += at_peak(i);
  const double slack = 1e-6 * peak_ + 1;
  const auto same = [slack](double a, double b) { return a - b < slack && b - a < slack; };
  for (uint32_t i = 1; i < count_; ++i)
    if (points_[i].at < points_[i - 1].at) return false;
  return same(now, total_) && same(at_peak_sum, peak_) && total_ <= peak_ + slack;
}

}  // namespace llamalloc
