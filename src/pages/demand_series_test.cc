// SPDX-License-Identifier: Apache-2.0
#include "pages/demand_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace llamalloc {
namespace {

// The same by brute force: every second has its extremes, quiet or not.
class Naive {
 public:
  void change(int64_t backed, int64_t used, Nanos now) {
    reach(now);
    backed_ += backed;
    used_ += used;
    seconds_.back().add(used_, backed_ - used_);
  }
  DemandSeries::Range range(Nanos now, uint32_t window) {
    reach(now);
    DemandSeries::Range range;
    const size_t from = seconds_.size() > window ? seconds_.size() - window : 0;
    range.least_used = range.least_free = SIZE_MAX;
    uint64_t sum = 0;
    for (size_t i = from; i < seconds_.size(); ++i) {
      const Second& s = seconds_[i];
      range.least_used = std::min(range.least_used, bytes(s.least_used));
      range.most_used = std::max(range.most_used, bytes(s.most_used));
      range.least_free = std::min(range.least_free, bytes(s.least_free));
      range.most_free = std::max(range.most_free, bytes(s.most_free));
      range.most_rise = std::max(range.most_rise, bytes(s.most_used - s.least_used));
      range.highest_low = std::max(range.highest_low, bytes(s.least_used));
      sum += static_cast<uint64_t>(s.least_free + s.most_free);
      ++range.seconds;
    }
    range.average_free = sum * (kBlockSize / 2) / range.seconds;
    return range;
  }

 private:
  struct Second {
    Second(int64_t used, int64_t free)
        : least_used(used), most_used(used), least_free(free), most_free(free) {}
    void add(int64_t used, int64_t free) {
      least_used = std::min(least_used, used), most_used = std::max(most_used, used);
      least_free = std::min(least_free, free), most_free = std::max(most_free, free);
    }
    int64_t least_used, most_used, least_free, most_free;
  };
  static size_t bytes(int64_t blocks) { return static_cast<size_t>(blocks) * kBlockSize; }
  // The series begins with the first event.
  void reach(Nanos now) {
    if (seconds_.empty()) start_ = now.n / DemandSeries::kEpoch.n;
    while (start_ + static_cast<int64_t>(seconds_.size()) <= now.n / DemandSeries::kEpoch.n)
      seconds_.emplace_back(used_, backed_ - used_);
  }

  int64_t backed_ = 0, used_ = 0, start_ = 0;
  std::vector<Second> seconds_;
};

void expect_same(const DemandSeries::Range& a, const DemandSeries::Range& b) {
  ASSERT_EQ(a.least_used, b.least_used);
  ASSERT_EQ(a.most_used, b.most_used);
  ASSERT_EQ(a.least_free, b.least_free);
  ASSERT_EQ(a.most_free, b.most_free);
  ASSERT_EQ(a.average_free, b.average_free);
  ASSERT_EQ(a.most_rise, b.most_rise);
  ASSERT_EQ(a.highest_low, b.highest_low);
  ASSERT_EQ(a.seconds, b.seconds);
}

// Events close together, and now and then a pause of up to minutes.
TEST(DemandSeries, EqualsBruteForceOverAMillionEvents) {
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    std::mt19937_64 random(seed);
    auto series = std::make_unique<DemandSeries>();
    Naive naive;
    Nanos now = Nanos::seconds(1000);
    int64_t backed = 0, used = 0;
    for (int i = 0; i < 250'000; ++i) {
      const bool pauses = random() % 2000 == 0;
      now.n += static_cast<int64_t>(random() % (pauses ? 200'000'000'000 : 50'000'000));
      const int64_t b = static_cast<int64_t>(random() % 513) - 256;
      const int64_t more = std::max<int64_t>(b, used - backed);
      backed += more;
      const int64_t most = std::min<int64_t>(backed - used, 64),
                    least = std::min<int64_t>(used, 64);
      const int64_t u =
          static_cast<int64_t>(random() % static_cast<uint64_t>(most + least + 1)) - least;
      used += u;
      series->change(more, u, now);
      naive.change(more, u, now);
      if (random() % 512 != 0) continue;
      now.n += static_cast<int64_t>(random() % 3'000'000'000);
      const auto window = static_cast<uint32_t>(1 + random() % 1000);
      expect_same(series->range(now, Nanos::seconds(window)), naive.range(now, window));
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", event " << i << ", window " << window;
    }
  }
}

TEST(DemandSeries, AnEmptyOneHasSeenNothing) {
  const auto series = std::make_unique<DemandSeries>();
  EXPECT_EQ(series->range(Nanos::seconds(5000), Nanos::seconds(60)).seconds, 0u);
  EXPECT_EQ(series->level().backed, 0u);
}

TEST(DemandSeries, AWindowAboveTheRingIsAsLongAsTheRing) {
  const auto series = std::make_unique<DemandSeries>();
  for (int second = 1; second <= 3000; ++second) series->change(1, 1, Nanos::seconds(second));
  EXPECT_EQ(series->range(Nanos::seconds(3000), Nanos::max()).seconds, 1000u);
  EXPECT_EQ(series->range(Nanos::seconds(3000), Nanos{0}).seconds, 1u);
}

// Also a clock that never moves: all of it is one second.
TEST(DemandSeries, AClockThatJumpsBackStaysInItsSecond) {
  const auto series = std::make_unique<DemandSeries>();
  series->change(10, 5, Nanos::seconds(100));
  series->change(0, 5, Nanos::seconds(3));
  series->change(0, -8, Nanos{-7});
  const DemandSeries::Range range = series->range(Nanos::seconds(100), Nanos::seconds(1));
  EXPECT_EQ(range.most_used, 10 * kBlockSize);
  EXPECT_EQ(range.least_used, 0u);
  EXPECT_EQ(series->level().used, 2 * kBlockSize);
  EXPECT_EQ(series->level().free(), 8 * kBlockSize);
}

TEST(DemandSeries, ThreadsAtOnceLoseNoPeakAndNoLevel) {
  const auto series = std::make_unique<DemandSeries>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 50'000; ++i) {
        series->change(2, 1, Nanos{i * 100'000'000});
        series->change(-2, -1, Nanos{i * 100'000'000});
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(series->level().backed, 0u);
  EXPECT_EQ(series->level().used, 0u);
  const DemandSeries::Range range = series->range(Nanos::seconds(5000), Nanos::max());
  EXPECT_LE(range.most_used, 4 * kBlockSize);
  EXPECT_LE(range.most_free, 4 * kBlockSize);
}

}  // namespace
}  // namespace llamalloc
