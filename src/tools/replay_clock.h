// SPDX-License-Identifier: Apache-2.0
// The pace of a replay, and a record of the pace that it kept: when each 4096th of the trace really
// happened. A simulation that is given this record runs on the same clock (sim/pace.h).
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>

namespace llamalloc {

class ReplayClock {
 public:
  static constexpr size_t kMarks = 4096;

  // speed: multiple of the trace's own; 0: no waiting.
  ReplayClock(uint64_t duration, double speed) : duration_(duration), speed_(speed) {}

  void start() { start_ = now(); }
  // Whether there is time for a sleep before the trace's `time`.
  bool is_early(uint64_t time) {
    if (speed_ <= 0) return false;
    const uint64_t due = due_at(time), at = now();
    if (at > due && at - due > late_) late_ = at - due;
    return due > at + kNotWorthASleep;
  }
  void sleep_until(uint64_t time) const {
    const uint64_t due = due_at(time), at = now();
    if (due > at) sleep_for(due - at);
  }
  // The trace has come to `time`, now.
  void reach(uint64_t time) {
    if (next_ <= kMarks && time >= time_of(next_)) record(time, now() - start_);
  }
  uint64_t started() const { return start_; }
  // Of the coarse clock: its period, and when its first tick was after start().
  static uint64_t tick_period() {
    timespec time;
    clock_getres(CLOCK_MONOTONIC_COARSE, &time);
    return nanoseconds(time);
  }
  uint64_t first_tick() const {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (nanoseconds(time) - start_) % tick_period();
  }
  // Nanoseconds since start(), evenly over the trace; good after reach(duration).
  const uint64_t* marks() const { return marks_; }
  uint64_t late() const { return late_; }  // at worst, nanoseconds
  uint64_t duration() const { return duration_; }

 private:
  static constexpr uint64_t kNotWorthASleep = 200'000;

  static uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return nanoseconds(time);
  }
  static uint64_t nanoseconds(const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  }
  static void sleep_for(uint64_t nanoseconds) {
    const timespec time{static_cast<time_t>(nanoseconds / 1'000'000'000),
                        static_cast<long>(nanoseconds % 1'000'000'000)};
    nanosleep(&time, nullptr);
  }
  uint64_t due_at(uint64_t time) const {
    return start_ + static_cast<uint64_t>(static_cast<double>(time) / speed_);
  }
  uint64_t time_of(size_t mark) const {
    return static_cast<uint64_t>(static_cast<double>(duration_) * static_cast<double>(mark) /
                                 static_cast<double>(kMarks));
  }
  // Marks passed since the last record lie on a line between the two.
  void record(uint64_t time, uint64_t at) {
    const double steps = time > last_time_ ? static_cast<double>(time - last_time_) : 1;
    for (; next_ <= kMarks && time_of(next_) <= time; ++next_) {
      const double part = static_cast<double>(time_of(next_) - last_time_) / steps;
      marks_[next_] = last_at_ + static_cast<uint64_t>(part * static_cast<double>(at - last_at_));
    }
    last_time_ = time;
    last_at_ = at;
  }

  uint64_t duration_;
  double speed_;
  uint64_t start_ = 0;
  uint64_t late_ = 0;
  size_t next_ = 1;
  uint64_t last_time_ = 0;
  uint64_t last_at_ = 0;
  uint64_t marks_[kMarks + 1] = {};
};

}  // namespace llamalloc
