// SPDX-License-Identifier: Apache-2.0
#include "release/cache_bypass.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

constexpr size_t kMiB = 1 << 20;

class CacheBypassTest : public testing::Test {
 protected:
  bool step(size_t held, size_t live, bool used_up = false) {
    now_ = now_ + Nanos::seconds(1);
    return bypass_.step(now_, held * kMiB, live * kMiB, used_up);
  }

  Nanos now_ = Nanos::seconds(100);
  CacheBypass bypass_;
};

TEST_F(CacheBypassTest, OnlyWhereMuchIsFreeButHeld) {
  EXPECT_FALSE(step(400, 390)) << "full";
  EXPECT_TRUE(step(400, 100));
  EXPECT_FALSE(step(1000, 800)) << "less than a quarter";
  EXPECT_FALSE(step(20, 6)) << "little";
  EXPECT_TRUE(step(24, 6));
}

TEST_F(CacheBypassTest, WhereItIsUsedUpItPausesLongerEachTime) {
  int seconds_on = 0;
  for (bool on = true; int second : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}) {
    on = step(400, 100, on && second != 0);
    seconds_on += on;
  }
  EXPECT_EQ(seconds_on, 4) << "after pauses of 1, 2, 4 and 8 seconds";
}

TEST_F(CacheBypassTest, AFallEndsThePause) {
  step(400, 300, true);
  step(400, 300, true);
  EXPECT_FALSE(step(400, 300, true)) << "for 4 seconds";
  EXPECT_FALSE(step(400, 290)) << "less than one in 32";
  EXPECT_FALSE(bypass_.falls());
  EXPECT_TRUE(step(400, 270));
  EXPECT_TRUE(bypass_.falls());
  EXPECT_TRUE(step(400, 200, true)) << "while it falls";
  EXPECT_FALSE(step(400, 200, true));
  EXPECT_TRUE(step(400, 200)) << "the first pause again";
}

}  // namespace
}  // namespace llamalloc
