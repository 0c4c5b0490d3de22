// SPDX-License-Identifier: Apache-2.0
#include "profile/live_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "profile/profile_test_util.h"
#include "profile/scratch_pages.h"

namespace llamalloc {
namespace {

struct World {
  World() { EXPECT_TRUE(history.start(arena)); }

  ScratchPages pages{system_pages};
  MetadataArena arena{pages};
  LiveHistory history;
};

TEST(LiveHistory, KnowsWhatEachContextHeldAtThePeak) {
  World w;
  w.history.change(w.arena, 0, 100, {1});
  w.history.change(w.arena, 1, 50, {2});
  w.history.change(w.arena, 0, -70, {3});
  w.history.change(w.arena, 2, 60, {4});
  EXPECT_EQ(w.history.peak(), 150);
  EXPECT_EQ(w.history.peak_at(), Nanos{2});
  EXPECT_EQ(w.history.at_peak(0), 100);
  EXPECT_EQ(w.history.at_peak(1), 50);
  EXPECT_EQ(w.history.at_peak(2), 0);
  EXPECT_EQ(w.history.live(0), 30);
  EXPECT_TRUE(w.history.is_consistent());
}

TEST(LiveHistory, AgreesWithANaiveOneAtEveryStep) {
  World w;
  std::mt19937 random(7);
  std::map<uint32_t, double> live, at_peak;
  double total = 0, peak = 0;
  for (int i = 1; i <= 20'000; ++i) {
    const auto context = static_cast<uint32_t>(random() % 40);
    const double bytes = static_cast<double>(random() % 4096) - (i > 10'000 ? 2500 : 1500);
    const double change = std::max(bytes, -live[context]);
    w.history.change(w.arena, context, change, {i});
    live[context] += change;
    total += change;
    if (total > peak) peak = total, at_peak = live;
  }
  EXPECT_DOUBLE_EQ(w.history.peak(), peak);
  for (const auto& [context, bytes] : live) {
    EXPECT_DOUBLE_EQ(w.history.live(context), bytes);
    EXPECT_DOUBLE_EQ(w.history.at_peak(context), at_peak[context]);
  }
  EXPECT_TRUE(w.history.is_consistent());
}

TEST(LiveHistory, PointsAreThinnedAndNameTheLargest) {
  World w;
  const int64_t step = LiveHistory::kFirstStep.n / 2;
  for (int64_t i = 1; i <= 5'000; ++i)
    w.history.change(w.arena, static_cast<uint32_t>(i % 100), static_cast<double>(i % 100 + 1),
                     {i * step});
  EXPECT_LE(w.history.points(), LiveHistory::kPoints);
  EXPECT_GT(w.history.points(), LiveHistory::kPoints / 4);
  const LivePoint& last = w.history.point(w.history.points() - 1);
  EXPECT_GT(last.at.n, 4'500 * step);
  ASSERT_EQ(last.count, LivePoint::kLargest);
  for (uint32_t i = 1; i < last.count; ++i)
    EXPECT_GE(last.largest[i - 1].bytes, last.largest[i].bytes);
  EXPECT_EQ(last.largest[0].context, 99u);
  EXPECT_TRUE(w.history.is_consistent());
}

TEST(LiveHistory, AChildBeginsAnew) {
  World w;
  w.history.change(w.arena, 3, 1000, {1});
  w.history.clear();
  EXPECT_EQ(w.history.peak(), 0);
  EXPECT_EQ(w.history.points(), 0u);
  w.history.change(w.arena, 3, 10, {2});
  EXPECT_EQ(w.history.live(3), 10);
  EXPECT_EQ(w.history.at_peak(3), 10);
  EXPECT_TRUE(w.history.is_consistent());
}

TEST(LiveHistory, AFreeThatWasNeverAllocatedDoesNotGoBelowZero) {
  World w;
  w.history.change(w.arena, 0, -5, {1});
  EXPECT_EQ(w.history.live(0), 0);
  EXPECT_TRUE(w.history.is_consistent());
}

}  // namespace
}  // namespace llamalloc
