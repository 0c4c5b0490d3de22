// SPDX-License-Identifier: Apache-2.0
#include "placement/lookup_time.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

class LookupTimeTest : public testing::Test {
 protected:
  // So many seconds, in each of which the process works so long.
  void run(int seconds, double worked, double share) {
    for (int i = 0; i < seconds; ++i) {
      used_ = used_ + Nanos{static_cast<int64_t>(worked * 1e9)};
      lookups_ += static_cast<uint64_t>(worked * share * 1e9);
      time_.step(lookups_, used_);
    }
  }

  LookupTime time_;
  uint64_t lookups_ = 0;
  Nanos used_{};
};

TEST_F(LookupTimeTest, IsAShareOfWhatTheProcessUses) {
  EXPECT_EQ(time_.share(), 0);
  run(100, 0.7, 0.08);
  EXPECT_NEAR(time_.share(), 0.08, 0.001);
  run(100, 0, 0);
  run(100, 2, 0.08);
  EXPECT_NEAR(time_.share(), 0.08, 0.001) << "idle seconds count for nothing";
}

TEST_F(LookupTimeTest, ATroughDoesNotHideWhatTheLoadCosts) {
  run(100, 0.5, 0.2);
  run(200, 0, 0);
  EXPECT_NEAR(time_.share(), 0.2, 0.001);
  run(60, 0.02, 0.01);
  EXPECT_GT(time_.share(), 0.15);
  EXPECT_NEAR(time_.share_now(), 0.01, 0.001);
  run(1, 0.001, 0.01);
  EXPECT_LT(time_.share_now(), 0) << "it did too little to tell";
}

TEST_F(LookupTimeTest, FollowsWhatChangesWithinAMinute) {
  run(200, 1, 0.2);
  run(60, 1, 0.01);
  EXPECT_LT(time_.share(), 0.05);
  run(60, 1, 0.2);
  EXPECT_GT(time_.share(), 0.15);
}

TEST_F(LookupTimeTest, SaysNothingOfAProcessThatDidLittle) {
  run(10, 0.01, 0.5);
  EXPECT_EQ(time_.share(), 0);
  run(10, 0.1, 0.5);
  EXPECT_NEAR(time_.share(), 0.5, 0.001);
}

TEST_F(LookupTimeTest, SaysNothingOfAStartThatFillsAHeapAtOnce) {
  run(1, 0.3, 0.4);
  run(20, 0.001, 0.01);
  EXPECT_EQ(time_.share(), 0);
}

TEST_F(LookupTimeTest, WhatWorksLittleForLongIsJudged) {
  run(400, 0.005, 0.4);
  EXPECT_NEAR(time_.share(), 0.4, 0.001);
}

TEST(LookupPriceTest, IsWithinReason) {
  EXPECT_EQ(timed_lookup(Nanos{30}), Nanos{18});
  EXPECT_EQ(timed_lookup(Nanos{-5}), Nanos{0}) << "clocks are not exact";
  EXPECT_EQ(timed_lookup(Nanos{5'000'000}), timed_lookup(Nanos{300})) << "an interrupt";
  EXPECT_LT(price_of_lookup(0), price_of_lookup(1));
}

TEST_F(LookupTimeTest, AClockThatBeginsAnewTakesNothingBack) {
  run(30, 1, 0.1);
  used_ = Nanos{};
  run(30, 1, 0.1);
  EXPECT_NEAR(time_.share(), 0.1, 0.01);
}

}  // namespace
}  // namespace llamalloc
