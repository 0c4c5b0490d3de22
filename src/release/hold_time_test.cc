// SPDX-License-Identifier: Apache-2.0
#include "release/hold_time.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace llamalloc {
namespace {

constexpr Nanos kLeast = Nanos::seconds(1);

class HoldTimeTest : public testing::Test {
 protected:
  // Each second so many huge pages are needed again, so long after they were freed. The process
  // uses a processor all the time.
  Nanos run(int seconds, int pages, Nanos gap, size_t most_extra = SIZE_MAX) {
    Nanos hold = kLeast;
    for (int s = 0; s < seconds; ++s) {
      used_ = used_ + Nanos::seconds(1);
      gaps_.add(gap, static_cast<size_t>(pages) * kHugePageSize);
      hold = rest(most_extra);
    }
    return hold;
  }
  // A second in which it does nothing.
  Nanos rest(size_t most_extra = 0) {
    now_ = now_ + Nanos::seconds(1);
    return hold_.step(now_, gaps_, kLeast, most_extra, {fetch_, used_});
  }
  ReuseGaps gaps_;
  HoldTime hold_;
  Nanos now_ = Nanos::seconds(1000);
  Nanos used_{};
  Nanos fetch_ = FetchWork().fetch;
};

TEST_F(HoldTimeTest, WithoutGapsTheLeast) {
  EXPECT_EQ(run(100, 0, Nanos{0}), kLeast);
}

TEST_F(HoldTimeTest, LongerWhereMuchIsNeededAgainSoonAfter) {
  EXPECT_EQ(run(60, 50, Nanos::millis(1500)), Nanos::seconds(2));
  EXPECT_EQ(run(200, 50, Nanos::millis(3500)), Nanos::seconds(4));
}

TEST_F(HoldTimeTest, NotForALittle) {
  EXPECT_EQ(run(60, 3, Nanos::millis(1500)), kLeast) << "0.75 ms in a second";
}

TEST_F(HoldTimeTest, NotForWhatComesBackMuchLater) {
  EXPECT_EQ(run(60, 50, Nanos::seconds(20)), kLeast) << "no hold that is allowed would do";
}

TEST_F(HoldTimeTest, NotWhereItKeepsTooMuch) {
  run(60, 50, Nanos::millis(1500));
  EXPECT_EQ(hold_.step(now_, gaps_, kLeast, 60 * kHugePageSize), Nanos::seconds(2));
  EXPECT_EQ(hold_.step(now_, gaps_, kLeast, 30 * kHugePageSize), kLeast);
}

// Where the host has to find the memory first.
TEST_F(HoldTimeTest, WhereFetchingCostsMuchOfTheWorkWhateverItKeeps) {
  EXPECT_EQ(run(60, 20, Nanos::seconds(6), 0), kLeast);
  fetch_ = Nanos::millis(5);
  double fetching = 20 * HoldTime::kFade * 0.00475;  // seconds; before, at another price
  for (int s = 0; s < 600; ++s)
    if (run(1, 50, Nanos::seconds(6), 0) < Nanos::seconds(6)) fetching += 0.25;
  EXPECT_LE(fetching, 600 * HoldTime::kShareOfWork + HoldTime::kCredit + 0.5);
  EXPECT_GE(fetching, 600 * HoldTime::kShareOfWork - 0.5) << "and no longer than it has to";
}

TEST_F(HoldTimeTest, InDebtFewPagesAreHeldToo) {
  fetch_ = Nanos::millis(5);
  Nanos hold{};
  for (int s = 0; s < 60; ++s) {
    gaps_.add(Nanos::seconds(6), 3 * kHugePageSize);
    used_ = used_ + Nanos::millis(20);
    hold = rest();
  }
  EXPECT_EQ(hold, Nanos::seconds(8)) << "at 0.25 ms a page, 3 in a second are little";
}

TEST_F(HoldTimeTest, WhatIsHeldCostsNothingAndTheDebtIsPaidOff) {
  fetch_ = Nanos::millis(5);
  EXPECT_EQ(run(60, 50, Nanos::seconds(6), 0), Nanos::seconds(8));
  EXPECT_EQ(run(600, 0, Nanos{0}, 0), kLeast);
  EXPECT_EQ(hold_.debt(), 0);
}

TEST_F(HoldTimeTest, OneSwingIsWithinTheCredit) {
  fetch_ = Nanos::millis(5);
  EXPECT_EQ(run(1, 0, Nanos{0}, 0), kLeast);
  EXPECT_EQ(run(1, 75, Nanos::seconds(6), 0), kLeast);
  EXPECT_EQ(run(1, 75, Nanos::seconds(6), 0), Nanos::seconds(8)) << "the next one is not";
}

TEST_F(HoldTimeTest, WhatWasFetchedBeforeThePriceWasKnownIsOwedToo) {
  EXPECT_EQ(run(3, 75, Nanos::seconds(6), 0), kLeast);
  fetch_ = Nanos::millis(5);
  EXPECT_EQ(run(1, 0, Nanos{0}, 0), Nanos::seconds(8));
  fetch_ = FetchWork().fetch;
  EXPECT_EQ(run(1, 0, Nanos{0}, 0), kLeast) << "it was measured too high";
}

TEST_F(HoldTimeTest, AForkedChildHasWorkedNothingYet) {
  fetch_ = Nanos::millis(5);
  EXPECT_EQ(run(5, 50, Nanos::seconds(6), 0), Nanos::seconds(8));
  const double owed = hold_.debt();
  used_ = {};
  run(1, 0, Nanos{0}, 0);
  EXPECT_EQ(hold_.debt(), owed);
}

TEST_F(HoldTimeTest, AtRestADebtHoldsNothing) {
  fetch_ = Nanos::millis(5);
  EXPECT_EQ(run(4, 40, Nanos::seconds(6), 0), Nanos::seconds(8));
  EXPECT_EQ(rest(), kLeast);
  used_ = used_ + Nanos::millis(19);
  EXPECT_EQ(rest(), kLeast) << "what a server does while nobody asks";
  used_ = used_ + Nanos::millis(21);
  EXPECT_EQ(rest(), Nanos::seconds(8));
}

TEST_F(HoldTimeTest, AllIsHeldInDebtButNotAtRest) {
  fetch_ = Nanos::millis(5);
  EXPECT_FALSE(hold_.holds_all());
  run(4, 40, Nanos::seconds(6), 0);
  EXPECT_TRUE(hold_.holds_all());
  rest();
  EXPECT_FALSE(hold_.holds_all());
  run(600, 0, Nanos{0}, 0);
  EXPECT_FALSE(hold_.holds_all()) << "paid off";
}

TEST_F(HoldTimeTest, AtRestTheFirstRuleHolds) {
  EXPECT_EQ(run(60, 50, Nanos::millis(1500)), Nanos::seconds(2));
  EXPECT_EQ(rest(SIZE_MAX), Nanos::seconds(2));
}

TEST_F(HoldTimeTest, AtRestADebtHoldsWhatIsNeededAgainSoon) {
  fetch_ = Nanos::millis(5);
  EXPECT_EQ(run(4, 40, Nanos::millis(2500), 0), Nanos::seconds(4));
  EXPECT_EQ(rest(), Nanos::seconds(4)) << "whatever it keeps";
  for (int s = 0; s < 600; ++s) run(1, 0, Nanos{0}, 0);
  EXPECT_EQ(rest(), kLeast) << "all is paid";
}

TEST_F(HoldTimeTest, WavesWithRestsCostNoMoreThanTheCreditAndOneWave) {
  fetch_ = Nanos::millis(5);
  constexpr int kPages = 100;
  double fetching = 0, worked = 0;
  for (int wave = 0; wave < 60; ++wave) {
    run(4, 0, Nanos{0}, 0);
    worked += 4;
    Nanos shortest = rest();
    for (int s = 1; s < 6; ++s) shortest = std::min(shortest, rest());
    gaps_.add(Nanos::seconds(6), size_t{kPages} * kHugePageSize);
    if (shortest < Nanos::seconds(6)) fetching += kPages * 5e-3;
  }
  const double paid = worked * HoldTime::kShareOfWork;
  EXPECT_LE(fetching, paid + HoldTime::kCreditAtRest + kPages * 5e-3);
  EXPECT_GE(fetching, paid - kPages * 5e-3) << "and the memory goes back as often as that allows";
}

TEST_F(HoldTimeTest, OldGapsFade) {
  EXPECT_EQ(run(60, 50, Nanos::millis(1500)), Nanos::seconds(2));
  EXPECT_EQ(run(120, 0, Nanos{0}), kLeast);
}

TEST_F(HoldTimeTest, AClockThatStandsOrGoesBackChangesNothing) {
  run(60, 50, Nanos::millis(1500));
  gaps_.add(Nanos::seconds(3), size_t{1} << 40);
  EXPECT_EQ(hold_.step(now_, gaps_, kLeast), Nanos::seconds(2));
  EXPECT_EQ(hold_.step(Nanos::seconds(1), gaps_, kLeast), Nanos::seconds(2));
}

TEST(ReuseGaps, CountsByPowersOfTwo) {
  EXPECT_EQ(ReuseGaps::bucket_of(Nanos{-5}), 0);
  for (int b = 0; b < ReuseGaps::kBuckets - 1; ++b) {
    EXPECT_EQ(ReuseGaps::bucket_of(ReuseGaps::end_of(b) - Nanos{1}), b);
    EXPECT_EQ(ReuseGaps::bucket_of(ReuseGaps::end_of(b)), b + 1);
  }
  EXPECT_EQ(ReuseGaps::bucket_of(Nanos::max()), ReuseGaps::kBuckets - 1);
}

}  // namespace
}  // namespace llamalloc
