// SPDX-License-Identifier: Apache-2.0
#include "release/limit_watch.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr Nanos kNow = Nanos::seconds(1000);
using Level = Pressure::Level;

TEST(LimitWatch, WithoutALimitThereIsNoPressure) {
  LimitWatch watch;
  EXPECT_TRUE(watch.is_due(kNow));
  watch.take(kNow, SIZE_MAX, SIZE_MAX, 0, 5 * kMiB);
  EXPECT_FALSE(watch.is_due(kNow + Nanos::seconds(29)));
  EXPECT_TRUE(watch.is_due(kNow + Nanos::seconds(30))) << "one may be set later";
  const Pressure pressure = watch.pressure(size_t{1} << 50, 0, 0);
  EXPECT_EQ(pressure.level, Level::none);
  EXPECT_EQ(pressure.room, SIZE_MAX);
}

TEST(LimitWatch, TheNearerTheMoreOften) {
  LimitWatch watch;
  watch.take(kNow, 800 * kMiB, 700 * kMiB, 0, 0);
  EXPECT_FALSE(watch.is_due(kNow + Nanos::seconds(9)));
  watch.take(kNow, 800 * kMiB, 150 * kMiB, 0, 0);
  EXPECT_FALSE(watch.is_due(kNow + Nanos::millis(900)));
  EXPECT_TRUE(watch.is_due(kNow + Nanos::seconds(1)));
}

TEST(LimitWatch, LevelsFollowTheRoom) {
  LimitWatch watch;
  watch.take(kNow, 800 * kMiB, 101 * kMiB, 0, 0);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::none);
  watch.take(kNow, 800 * kMiB, 100 * kMiB, 0, 0);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::near);
  watch.take(kNow, 800 * kMiB, 25 * kMiB, 0, 0);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::at);
  watch.take(kNow, 0, 0, 0, 0);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::at) << "a limit of 0";
}

// A pod that is half full, in a node of which a fiftieth is left.
TEST(LimitWatch, TheLimitWithTheLeastRoomMayNotBeTheNearest) {
  LimitWatch watch;
  watch.take(kNow, 4096 * kMiB, 2048 * kMiB, 0, 0);
  watch.take_tightest(size_t{120} << 30, 2200 * kMiB);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::at);
  EXPECT_EQ(watch.pressure(0, 0, 0).room, 2048 * kMiB);
  EXPECT_TRUE(watch.is_due(kNow + Nanos::seconds(1)));
  watch.take(kNow, 4096 * kMiB, 2048 * kMiB, 0, 0);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::none) << "it is another group's no more";
}

// Nobody reads a file for it.
TEST(LimitWatch, WhatTheProcessTookMeanwhileCounts) {
  LimitWatch watch;
  watch.take(kNow, 800 * kMiB, 500 * kMiB, 0, 100 * kMiB);
  EXPECT_EQ(watch.pressure(200 * kMiB, 0, 0).room, 400 * kMiB);
  EXPECT_EQ(watch.pressure(520 * kMiB, 0, 0).level, Level::near);
  EXPECT_EQ(watch.pressure(900 * kMiB, 0, 0).level, Level::at);
  EXPECT_EQ(watch.pressure(50 * kMiB, 0, 0).room, 500 * kMiB) << "less of it may be another's gain";
}

TEST(LimitWatch, ItIsNearlyFullWhenASixteenthIsLeft) {
  LimitWatch watch;
  EXPECT_EQ(watch.pressure(kMiB, 0, 0).before_full, SIZE_MAX);
  watch.take(kNow, 800 * kMiB, 500 * kMiB, 0, 100 * kMiB);
  EXPECT_EQ(watch.pressure(100 * kMiB, 0, 0).before_full, 450 * kMiB);
  EXPECT_EQ(watch.pressure(540 * kMiB, 0, 0).before_full, 10 * kMiB);
  EXPECT_EQ(watch.pressure(700 * kMiB, 0, 0).before_full, 0u);
  EXPECT_EQ(watch.pressure(100 * kMiB, 0, 160 * kMiB).before_full, 50 * kMiB) << "the nearest";
  EXPECT_EQ(watch.pressure(200 * kMiB, 128 * kMiB, 0).before_full, 350 * kMiB)
      << "whoever passes a soft limit lives on";
}

TEST(LimitWatch, OwnLimits) {
  const LimitWatch watch;
  EXPECT_EQ(watch.pressure(99 * kMiB, 100 * kMiB, 0).level, Level::none);
  EXPECT_EQ(watch.pressure(99 * kMiB, 100 * kMiB, 0).room, 1 * kMiB);
  EXPECT_EQ(watch.pressure(100 * kMiB, 100 * kMiB, 0).level, Level::at);
  EXPECT_EQ(watch.pressure(90 * kMiB, 0, 100 * kMiB).level, Level::near);
  EXPECT_EQ(watch.pressure(120 * kMiB, 0, 100 * kMiB).level, Level::at);
}

TEST(LimitWatch, ASystemShortOfMemoryIsNear) {
  LimitWatch watch;
  watch.take(kNow, SIZE_MAX, SIZE_MAX, LimitWatch::kShortOfMemory, 0);
  EXPECT_EQ(watch.pressure(0, 0, 0).level, Level::near);
  EXPECT_TRUE(watch.is_due(kNow + Nanos::seconds(1)));
}

TEST(LimitWatch, AClockThatJumpsBackReadsAgain) {
  LimitWatch watch;
  watch.take(kNow, SIZE_MAX, SIZE_MAX, 0, 0);
  EXPECT_TRUE(watch.is_due(Nanos::seconds(5)));
}

}  // namespace
}  // namespace llamalloc
