// SPDX-License-Identifier: Apache-2.0
#include "release/release_plan.h"

#include <algorithm>

namespace llamalloc {
namespace {

constexpr int64_t kLongestStep = 60;    // seconds: a worker that slept longer saves up no more
constexpr double kWindowsToHalve = 10;  // evidence counts half after so many windows
constexpr int64_t kSlack = 3;           // seconds: from the drop until pages are at rest
constexpr double kRightEnough = 0.5;    // a skip that is wrong costs about what one saves
// Demand is at rest where it moves by less than one in kStill bytes of the heap.
constexpr Nanos kRest = Nanos::seconds(2);
constexpr size_t kStill = 64;
constexpr Nanos kMoving = Nanos::seconds(20);
constexpr size_t kPart = 5;  // to break a page and mend it costs up to so many fetches
constexpr size_t kNear = 8;  // demand is back where less than one in so many bytes of it is missing

}  // namespace

void ReleasePlan::Evidence::update(const SkipTracker& tracker, double kept) {
  right = right * kept + static_cast<double>(tracker.right() - seen_right);
  wrong = wrong * kept + static_cast<double>(tracker.wrong() - seen_wrong);
  seen_right = tracker.right();
  seen_wrong = tracker.wrong();
}

void ReleasePlan::expect(Nanos now, Nanos window, const DemandSeries& series,
                         size_t (&out)[kForecasts]) {
  out[0] = out[1] = 0;
  if (window.n <= 0) return;
  const Nanos longest = DemandSeries::kLongestWindow;
  const auto windows = [&](int64_t n) {
    return window.n > longest.n / n ? longest : Nanos{window.n * n};
  };
  const DemandSeries::Range recent = series.range(now, window);
  out[0] = recent.most_used;
  out[1] = std::min(series.range(now, windows(10)).most_used,
                    recent.most_rise + series.range(now, windows(5)).highest_low);
}

// How long `auto` waits for what came back before.
Nanos ReleasePlan::patience(Nanos window) const {
  const double wait = would_[in_force_ == ReleaseForecast::trend].longest_wait();
  const Nanos most = Nanos::seconds(static_cast<int64_t>(2 * wait) + kSlack);
  return std::min(window, at_rest_ ? most : std::max(most, kMoving));
}

// Seconds before this one are over.
void ReleasePlan::judge(Nanos now, Nanos window, const DemandSeries& series) {
  const uint32_t epoch = DemandSeries::epoch_of(now);
  window_ = DemandSeries::epochs_of(window);
  if (epoch == 0 || epoch <= epoch_) return;
  const double halves = double(epoch - epoch_) / (kWindowsToHalve * window_);
  const double kept = 1 / (1 + halves);
  own_.judge(series, epoch - 1, window_);
  for (int f = 0; f < kForecasts; ++f) {
    would_[f].judge(series, epoch - 1, window_);
    evidence_[f].update(would_[f], kept);
  }
  epoch_ = epoch;
}

void ReleasePlan::add_credit(Nanos now, uint64_t rate, size_t whole) {
  const int64_t elapsed = last_.n == 0 || now.n < last_.n ? 0 : now.n - last_.n;
  const double seconds = static_cast<double>(elapsed) * 1e-9;
  const double most = seconds < kLongestStep ? seconds : static_cast<double>(kLongestStep);
  const double bytes = static_cast<double>(rate) * most;
  last_ = now;
  rate_now_ = less(bytes < 0x1p62 ? static_cast<size_t>(bytes) : size_t{1} << 62, whole);
  const size_t most_kept = rate_now_ > kHugePageSize ? rate_now_ : kHugePageSize;
  credit_ = rate == 0 ? 0 : std::min(credit_ + rate_now_, most_kept);
}

ReleaseForecast ReleasePlan::choose(ReleaseForecast option) const {
  if (option != ReleaseForecast::automatic) return option;
  const Evidence &peak = evidence_[0], &trend = evidence_[1];
  if (!peak.knows() && !trend.knows()) return ReleaseForecast::peak;
  const double of_peak = peak.knows() ? peak.accuracy() : 0;
  const double of_trend = trend.knows() ? trend.accuracy() : 0;
  if (of_peak < kRightEnough && of_trend < kRightEnough) return ReleaseForecast::none;
  return of_peak >= of_trend ? ReleaseForecast::peak : ReleaseForecast::trend;
}

size_t ReleasePlan::allow(Nanos now, const ReleaseRules& rules, const DemandSeries& series,
                          size_t whole) {
  judge(now, rules.window, series);
  expect(now, rules.window, series, expected_);
  add_credit(now, rules.rate, whole);
  mapped_ = series.level().backed;
  forced_ = rules.forced;
  in_force_ = choose(rules.forecast);
  const bool is_auto = rules.forecast == ReleaseForecast::automatic;
  size_t demand[kForecasts] = {expected_[0], expected_[1]};
  const auto is_still = [&](Nanos lately) {
    const DemandSeries::Range range = series.range(now, lately);
    return range.most_used - range.least_used <= mapped_ / kStill;
  };
  at_rest_ = is_still(kRest);
  awaited_ = is_auto ? patience(rules.window) : rules.window;
  if (is_auto) expect(now, awaited_, series, demand);
  demand_ = in_force_ == ReleaseForecast::none ? 0 : demand[in_force_ == ReleaseForecast::trend];
  if (forced_) return SIZE_MAX;
  beside_ = std::min(beside_ + whole / kPart, less(demand_, mapped_) / kPart);
  const bool is_kept_for_return = series.level().used < demand_ - demand_ / kNear;
  const size_t beside = is_auto && at_rest_ && is_kept_for_return ? beside_ : 0;
  const size_t let_be = is_auto && !is_still(awaited_) ? mapped_ / kStill : 0;
  return std::min(less(mapped_, demand_ + let_be) + beside, credit_);
}

// The static rate would have broken `held_` of these pages before, and breaks some more now.
void ReleasePlan::note(size_t broken, size_t left) {
  beside_ = less(beside_, broken);
  const size_t held = std::min(held_, broken + left);
  const size_t more = std::min(forced_ ? broken : credit_, broken + left - held);
  credit_ = less(credit_, broken > more ? broken : more);
  broken_by_rate_ += more;
  const size_t still_held = less(held, broken);
  held_ = forced_ ? 0 : std::min(less(held + more, broken), left);
  if (forced_) return;
  const size_t top = less(mapped_ - std::min(mapped_, broken), still_held);
  const size_t skipped = less(held_, still_held);
  own_.skip(epoch_, less(top, skipped), std::min(top, demand_), window_);
  const size_t by_rate = less(mapped_, held);
  for (int f = 0; f < kForecasts; ++f)
    would_[f].skip(epoch_, less(by_rate, more), std::min(by_rate, expected_[f]), window_);
}

}  // namespace llamalloc
