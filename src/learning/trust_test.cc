// SPDX-License-Identifier: Apache-2.0
#include "learning/trust.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

constexpr double kMuch = 64 << 20;
using enum LifetimeClass;

Trust::Figures figures_of(const Trust& trust, LifetimeClass predicted, Nanos age) {
  Trust::Census alive;
  alive.add(predicted, age, kMuch);
  return trust.figures(alive);
}

TEST(TrustTest, PredictionsThatHoldCostNothing) {
  Trust trust;
  trust.freed(le_10ms, Nanos::millis(2900), kMuch);  // within its page group
  const Trust::Figures found = figures_of(trust, never, Nanos::seconds(5));
  EXPECT_EQ(found.older, 0);
  EXPECT_EQ(found.late, 0);
  EXPECT_EQ(found.short_share, 0.5) << "half of all, the other half is alive";
  EXPECT_EQ(found.long_share, 1);
}

TEST(TrustTest, WhatLivesLongerThanPredictedFails) {
  Trust trust;
  trust.freed(le_10ms, Nanos::seconds(4), kMuch);
  trust.freed(never, Nanos::seconds(2000), kMuch);
  EXPECT_EQ(figures_of(trust, le_3s, Nanos::seconds(13)).older, 1);
  EXPECT_EQ(figures_of(trust, le_3s, Nanos::seconds(12)).older, 0) << "a machine may be busy";
  EXPECT_EQ(figures_of(trust, le_3s, Nanos::seconds(13)).late, 0.5);
  EXPECT_EQ(figures_of(trust, le_3s, Nanos::seconds(13)).short_share, 0);
}

// A prediction covers the longest lives of a context.
TEST(TrustTest, WhatDiesEarlyDoesNot) {
  Trust trust;
  trust.freed(never, Nanos::seconds(1), kMuch);
  trust.freed(le_100s, {}, kMuch);
  EXPECT_EQ(figures_of(trust, mixed, {}).late, 0);
}

TEST(TrustTest, WithoutPredictionNothingIsJudged) {
  Trust trust;
  trust.freed(mixed, Nanos::seconds(1), kMuch);
  const Trust::Figures found = figures_of(trust, mixed, Nanos::seconds(100));
  EXPECT_EQ(found.older + found.late + found.short_share + found.long_share, 0);
}

TEST(TrustTest, WhatIsLateIsNewUntilItAges) {
  Trust trust;
  trust.freed(le_10ms, Nanos::seconds(4), kMuch);
  EXPECT_TRUE(figures_of(trust, mixed, {}).late_now);
  trust.age();
  EXPECT_FALSE(figures_of(trust, mixed, {}).late_now);
  EXPECT_GT(figures_of(trust, mixed, {}).late, 0);
}

TEST(TrustTest, LittleSaysNothing) {
  Trust trust;
  trust.freed(le_10ms, Nanos::seconds(4), Trust::kLeast / 2);
  Trust::Census alive;
  alive.add(le_10ms, Nanos::seconds(4), Trust::kLeast / 2);
  EXPECT_EQ(trust.figures(alive).late, 0);
  EXPECT_EQ(trust.figures(alive).older, 0);
}

TEST(TrustTest, AProgramThatChangesIsFollowed) {
  Trust trust;
  for (int second = 0; second < 100; ++second, trust.age()) trust.freed(le_10ms, {}, kMuch);
  EXPECT_EQ(figures_of(trust, mixed, {}).late, 0);
  for (int second = 0; second < 20; ++second, trust.age())
    trust.freed(le_10ms, Nanos::seconds(4), kMuch);
  EXPECT_GT(figures_of(trust, mixed, {}).late, 0.5);
}

}  // namespace
}  // namespace llamalloc
