// SPDX-License-Identifier: Apache-2.0
// The time of a policy while a trace is simulated: the trace's own, or that of a replay which took
// place, and was late or faster. Release, promotion and idle caches go by it.
//
//   marks   m[0]=0 ... m[n]: what the clock shows when each n-th of the trace is over; linear
//   between ticks   of the system's coarse clock visits  when the background work was done: before
//   which event, and at what time of the clock;
//           without any the policy says when
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llamalloc::sim {

struct Visit {
  uint64_t event;  // events before it
  uint64_t at;     // nanoseconds
};

struct Ticks {
  uint64_t period;
  uint64_t first;  // less than the period
};

class Pace {
 public:
  Pace() = default;
  // Marks in nanoseconds, at least two, none less than the one before; visits in their order.
  // duration: of the trace.
  Pace(std::vector<uint64_t> marks, Ticks ticks, std::vector<Visit> visits, uint64_t duration)
      : marks_(std::move(marks)), ticks_(ticks), visits_(std::move(visits)), duration_(duration) {}

  uint64_t at(uint64_t time) const {
    if (marks_.empty()) return time;
    if (time >= duration_) return marks_.back() + (time - duration_);
    const double place = static_cast<double>(time) / static_cast<double>(duration_) *
                         static_cast<double>(marks_.size() - 1);
    const auto mark = static_cast<size_t>(place);
    const uint64_t from = marks_[mark], to = marks_[mark + 1];
    const double part = place - static_cast<double>(mark);
    return from + static_cast<uint64_t>(part * static_cast<double>(to - from));
  }
  // Else nothing else of it is known.
  bool is_told() const { return !marks_.empty(); }
  const Ticks& ticks() const { return ticks_; }
  const std::vector<Visit>& visits() const { return visits_; }

 private:
  std::vector<uint64_t> marks_;
  Ticks ticks_{};
  std::vector<Visit> visits_;
  uint64_t duration_ = 0;
};

}  // namespace llamalloc::sim
