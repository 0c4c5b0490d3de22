// SPDX-License-Identifier: Apache-2.0
// When huge pages that are partly free are broken: only as far as memory will not be needed again
// soon. The algorithm of "Adaptive Huge-Page Subrelease for Non-moving Memory Allocators" (ISMM
// 2021), section 4, and two variants of it.
//
//   X = rate x time;  R = X - bytes of whole pages given back
//   may break = min(backed - expected demand, R), not below 0
//
//   expected demand   none    0: the static rate alone
//                     peak    most used over the window (the paper)
//                     trend   most used over 10 windows, or, if less, the largest rise within a
//                             second of the window + the highest low of 5 windows (tcmalloc)
//                     auto    the one of the two that would have been right more often; none if
//                             both would have been wrong more often than right; peak while nothing
//                             is known. Its window is no longer than twice the time after which
//                             demand came back so far: what did not come by then is not awaited any
//                             more. While demand moves it is 20 s at least: a drop may turn into a
//                             rise at any moment
//
// Demand that comes back has to fetch the whole pages that went back meanwhile. Where demand is at
// rest, and an eighth below the expected one, `auto` breaks a fifth as much: that adds little to
// the price of its return.
//
// While demand moves, `auto` lets be what exceeds the expected one by a 64th of the heap: such
// pages fill up again soon.
//
// For `auto`, and for statistics, the plan follows three allocators at once: itself, and for each
// of the two forecasts one that obeys it. What the static rate would have broken is counted too.
// Pure: no clock, lock or system call of its own.
#pragma once

#include "base/options.h"
#include "release/skip_tracker.h"

namespace llamalloc {

struct ReleaseRules {
  uint64_t rate;  // bytes a second
  Nanos window;   // 0: nothing is expected
  ReleaseForecast forecast;
  bool forced = false;  // a limit is near: nothing is skipped, at any rate
};

class ReleasePlan {
 public:
  static constexpr int kForecasts = 2;  // peak, trend

  // Bytes that may be broken at `now`. whole: bytes of whole pages given back since the last call.
  size_t allow(Nanos now, const ReleaseRules& rules, const DemandSeries& series, size_t whole);
  // What came of it: bytes that were broken, and of pages that could have been.
  void note(size_t broken, size_t left);

  const SkipTracker& skips() const { return own_; }
  // Bytes that the static rate would have broken.
  uint64_t broken_by_rate() const { return broken_by_rate_; }
  // What is followed now; never `automatic`.
  ReleaseForecast in_force() const { return in_force_; }
  // How long demand is awaited: the window, or less if `auto` decides.
  Nanos awaited() const { return awaited_; }

 private:
  // Of late: what counts fades, so that another load can change the choice.
  struct Evidence {
    double right = 0, wrong = 0;
    uint64_t seen_right = 0, seen_wrong = 0;
    void update(const SkipTracker& tracker, double kept);
    bool knows() const { return right + wrong >= static_cast<double>(kHugePageSize); }
    double accuracy() const { return right / (right + wrong); }
  };

  void expect(Nanos now, Nanos window, const DemandSeries& series, size_t (&out)[kForecasts]);
  Nanos patience(Nanos window) const;
  void judge(Nanos now, Nanos window, const DemandSeries& series);
  void add_credit(Nanos now, uint64_t rate, size_t whole);
  ReleaseForecast choose(ReleaseForecast option) const;

  Nanos last_{};
  Nanos awaited_{};
  uint32_t epoch_ = 0, window_ = 1;  // seconds
  bool forced_ = false;
  size_t rate_now_ = 0;  // R
  size_t credit_ = 0;    // R that was not used: a page may have more than one second's bytes
  size_t mapped_ = 0;    // before breaking
  size_t held_ = 0;      // what the static rate would have broken of the pages that can be
  size_t expected_[kForecasts] = {};
  size_t demand_ = 0;     // of what is in force
  size_t beside_ = 0;     // bytes that may be broken below it
  bool at_rest_ = false;  // demand
  ReleaseForecast in_force_ = ReleaseForecast::none;
  uint64_t broken_by_rate_ = 0;
  SkipTracker own_;
  SkipTracker would_[kForecasts];
  Evidence evidence_[kForecasts];
};

}  // namespace llamalloc
