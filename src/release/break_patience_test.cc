// SPDX-License-Identifier: Apache-2.0
#include "release/break_patience.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

class BreakPatienceTest : public testing::Test {
 protected:
  // Uses so many processors for so many seconds, and mends so many pages in each.
  void run(double processors, int seconds, size_t mended = 0) {
    for (int i = 0; i < seconds; ++i) {
      now_ = now_ + Nanos::seconds(1);
      used_.n += static_cast<int64_t>(processors * 1e9);
      patience_.step(now_, used_, mended);
    }
  }

  Nanos rest(Nanos least) const { return patience_.rest(least, BreakPatience::kLarge); }

  // As long as at rest.
  double times() const {
    const auto least = static_cast<double>(BreakPatience::kLeast.n);
    return static_cast<double>(rest(BreakPatience::kLeast).n) / least;
  }
  static constexpr double kNever = 500'000;

  BreakPatience patience_;
  Nanos now_ = Nanos::seconds(100), used_ = Nanos::seconds(50);
};

TEST_F(BreakPatienceTest, GrowsWithTheWork) {
  run(2, 60);
  EXPECT_NEAR(times(), 100, 0.5);
  run(0.01, 2);
  EXPECT_GT(times(), 50) << "a moment of rest is none";
  run(0.01, 60);
  EXPECT_EQ(times(), 1);
}

TEST_F(BreakPatienceTest, IsThatOfABusyProcessUntilItIsKnown) {
  EXPECT_EQ(times(), 50);
  patience_.step(now_, used_, 0);
  EXPECT_EQ(times(), 50) << "before the first look it may have rested";
}

TEST_F(BreakPatienceTest, EndsWhereMorePagesAreMendedThanTheCreditIsFor) {
  run(0.03, 60);
  run(0.03, 1, 78);
  EXPECT_NEAR(times(), 1.5, 0.1);
  run(0.03, 1, 6);
  EXPECT_EQ(times(), kNever);
  run(1, 15);
  EXPECT_EQ(times(), kNever) << "until all is paid";
  run(1, 2), run(0, 60);
  EXPECT_EQ(times(), 1);
}

// It would be minutes until a second wave is paid for, and nothing is to be gained by waiting.
TEST_F(BreakPatienceTest, AtRestTheCreditIsLarger) {
  run(0, 60);
  run(0, 1, 190);
  EXPECT_EQ(times(), 1);
  EXPECT_FALSE(patience_.owes());
  run(0.1, 20);
  EXPECT_EQ(times(), kNever);
  EXPECT_TRUE(patience_.owes());
  run(0, 20);
  EXPECT_EQ(times(), 1) << "once it rests again";
  run(0, 1, 30);
  EXPECT_EQ(times(), kNever);
}

// A load that comes once an hour may cost its second.
TEST_F(BreakPatienceTest, TimePaysItOffToo) {
  run(0, 60);
  run(0, 1, 220);
  run(0, 90);
  EXPECT_EQ(times(), kNever);
  run(0, 20);
  EXPECT_EQ(times(), 1);
}

TEST_F(BreakPatienceTest, NoDelayIsNoReasonForHaste) {
  run(0, 60);
  EXPECT_EQ(rest(Nanos{}).n, BreakPatience::kLeast.n);
  EXPECT_EQ(rest(Nanos::seconds(3)).n, Nanos::seconds(3).n);
  run(1000, 60);
  EXPECT_EQ(rest(Nanos::seconds(7200)).n, BreakPatience::kForEver.n) << "no overflow";
}

TEST_F(BreakPatienceTest, ASmallHeapWaitsLess) {
  constexpr Nanos kLeast = BreakPatience::kLeast;
  run(0, 60);
  EXPECT_EQ(patience_.rest(kLeast, BreakPatience::kLarge / 4).n, kLeast.n / 4);
  EXPECT_EQ(patience_.rest(kLeast, 0).n, kLeast.n / 6) << "no less than sparse ones";
  EXPECT_EQ(patience_.rest(kLeast, BreakPatience::kLarge * 4).n, kLeast.n);
  run(1, 60);
  EXPECT_NEAR(static_cast<double>(patience_.rest(kLeast, BreakPatience::kLarge / 4).n),
              12.5 * static_cast<double>(kLeast.n), 1e9)
      << "a processor that is busy is 50 times the rest";
  run(0, 1, 220);
  EXPECT_EQ(patience_.rest(kLeast, 1).n, BreakPatience::kForEver.n) << "what is owed is owed";
}

TEST_F(BreakPatienceTest, ItWorksFromAFifthOfAProcessorOn) {
  EXPECT_TRUE(patience_.works()) << "until it is known";
  run(0.1, 60);
  EXPECT_FALSE(patience_.works());
  run(0.3, 60);
  EXPECT_TRUE(patience_.works());
}

TEST_F(BreakPatienceTest, TheDebtHasABound) {
  run(0, 10, 1 << 20);
  run(10, 250), run(0, 60);
  EXPECT_EQ(times(), 1);
}

TEST_F(BreakPatienceTest, AClockThatJumpsTellsNothing) {
  run(1, 60);
  const double before = times();
  patience_.step(now_, used_, 0);
  patience_.step(now_ - Nanos::seconds(10), used_, 0);
  patience_.step(now_ + Nanos::seconds(1), Nanos{}, 0);
  EXPECT_EQ(times(), before);
  now_ = now_ + Nanos::seconds(1), used_ = Nanos{};
  run(0, 60);
  EXPECT_EQ(times(), 1);
}

}  // namespace
}  // namespace llamalloc
