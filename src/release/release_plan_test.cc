// SPDX-License-Identifier: Apache-2.0
#include "release/release_plan.h"

#include <gtest/gtest.h>

#include <memory>

namespace llamalloc {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr uint64_t kAnyRate = uint64_t{1} << 40;
constexpr Nanos kWindow = Nanos::seconds(60);

// A heap whose use is set, of which everything that is free can be broken, byte by byte.
class ReleasePlanTest : public testing::Test {
 protected:
  void use(size_t mib) {
    const auto want = static_cast<int64_t>(mib * kMiB / kBlockSize);
    const auto have = static_cast<int64_t>(series_->level().used / kBlockSize);
    const auto backed = static_cast<int64_t>(series_->level().backed / kBlockSize);
    series_->change(want > backed ? want - backed : 0, want - have, now_);
  }
  // The next second; returns what was broken.
  size_t step(ReleaseForecast forecast, uint64_t rate = kAnyRate, size_t whole = 0) {
    now_ = now_ + Nanos::seconds(1);
    const size_t most = plan_->allow(now_, {rate, window_, forecast}, *series_, whole);
    const size_t free = series_->level().free() / kBlockSize * kBlockSize;
    const size_t broken = (most < free ? most : free) / kBlockSize * kBlockSize;
    series_->change(-static_cast<int64_t>(broken / kBlockSize), 0, now_);
    plan_->note(broken, free - broken);
    return broken;
  }
  size_t steps(int n, ReleaseForecast forecast, uint64_t rate = kAnyRate) {
    size_t broken = 0;
    for (int i = 0; i < n; ++i) broken += step(forecast, rate);
    return broken;
  }
  // A load that comes and goes.
  size_t swings(int n, size_t low, size_t high, int seconds, ReleaseForecast forecast) {
    size_t broken = 0;
    for (int i = 0; i < n; ++i) {
      use(high);
      broken += steps(seconds, forecast);
      use(low);
      broken += steps(seconds, forecast);
    }
    return broken;
  }

  Nanos now_ = Nanos::seconds(5000), window_ = kWindow;
  std::unique_ptr<DemandSeries> series_ = std::make_unique<DemandSeries>();
  std::unique_ptr<ReleasePlan> plan_ = std::make_unique<ReleasePlan>();
};

TEST_F(ReleasePlanTest, TheStaticRateBreaksWhatTheRateAllows) {
  use(100);
  step(ReleaseForecast::none, 10 * kMiB);
  use(10);
  EXPECT_EQ(step(ReleaseForecast::none, 10 * kMiB), 10 * kMiB);
  EXPECT_EQ(step(ReleaseForecast::none, 10 * kMiB, 6 * kMiB), 4 * kMiB) << "whole pages count";
  EXPECT_EQ(step(ReleaseForecast::none, 10 * kMiB, 60 * kMiB), 0u);
  EXPECT_EQ(step(ReleaseForecast::none, 0), 0u) << "a rate of 0 breaks nothing";
  EXPECT_EQ(plan_->skips().skipped(), 0u);
}

// The paper's example of section 4.2: 500 MB are used, the peak was 1 GB, 2 GB are mapped.
TEST_F(ReleasePlanTest, MemoryUpToThePeakOfTheWindowStays) {
  use(2000);
  now_ = now_ + Nanos::seconds(1);
  plan_->allow(now_, {kAnyRate, kWindow, ReleaseForecast::peak}, *series_, 0);
  use(1000);
  now_ = now_ + Nanos::seconds(100);
  use(500);
  EXPECT_EQ(step(ReleaseForecast::peak), 1000 * kMiB);
  EXPECT_EQ(plan_->skips().skipped(), 500 * kMiB);
  EXPECT_EQ(plan_->broken_by_rate(), 1500 * kMiB);
  steps(5, ReleaseForecast::peak);
  EXPECT_EQ(plan_->skips().skipped(), 500 * kMiB) << "each byte once";
  use(750);
  step(ReleaseForecast::peak);
  use(500);
  steps(120, ReleaseForecast::peak);
  EXPECT_EQ(plan_->skips().right(), 250 * kMiB) << "the next peak was 750 MB";
  // What the second peak kept in its turn was wrong, too.
  EXPECT_EQ(plan_->skips().pending(), 0u);
  EXPECT_GE(plan_->skips().wrong(), 250 * kMiB);
  EXPECT_EQ(series_->level().backed, 500 * kMiB) << "it goes back all the same, later";
}

TEST_F(ReleasePlanTest, EverySkipIsJudgedInTheEnd) {
  swings(20, 50, 300, 7, ReleaseForecast::peak);
  swings(5, 20, 100, 90, ReleaseForecast::trend);
  steps(200, ReleaseForecast::peak);
  EXPECT_GT(plan_->skips().skipped(), 0u);
  EXPECT_EQ(plan_->skips().pending(), 0u);
}

TEST_F(ReleasePlanTest, SwingsWithinTheWindowAreRidden) {
  EXPECT_EQ(swings(10, 50, 300, 5, ReleaseForecast::peak), 0u);
  EXPECT_GE(plan_->broken_by_rate(), 250 * kMiB);
  steps(1, ReleaseForecast::peak);
  const SkipTracker& skips = plan_->skips();
  EXPECT_GE(skips.right() * 10, (skips.right() + skips.wrong()) * 9);
}

TEST_F(ReleasePlanTest, TheTrendForgetsASingleSpike) {
  use(100);
  steps(200, ReleaseForecast::trend);
  use(1000);
  step(ReleaseForecast::trend);
  use(100);
  steps(62, ReleaseForecast::trend);
  EXPECT_EQ(series_->level().backed, 100 * kMiB)
      << "the rise is out of the window, the low never rose";
}

TEST_F(ReleasePlanTest, AutoFollowsWhatWasRight) {
  const size_t first = swings(2, 50, 300, 5, ReleaseForecast::automatic);
  EXPECT_GE(first, 250 * kMiB) << "nothing was known: broken like by the rate";
  EXPECT_EQ(swings(10, 50, 300, 5, ReleaseForecast::automatic), 0u);
  EXPECT_NE(plan_->in_force(), ReleaseForecast::none);
}

// The load came back after 5 s each time; then it ended.
TEST_F(ReleasePlanTest, AutoDoesNotWaitForTheWholeWindow) {
  swings(8, 50, 300, 5, ReleaseForecast::automatic);
  EXPECT_EQ(series_->level().backed, 300 * kMiB);
  steps(15, ReleaseForecast::automatic);
  EXPECT_EQ(series_->level().backed, 50 * kMiB);
}

// Nothing is known yet, but it may turn at any moment.
TEST_F(ReleasePlanTest, AutoWaitsWhileDemandMoves) {
  size_t broken = 0;
  for (size_t mib = 300; mib > 100; mib -= 20) use(mib), broken += step(ReleaseForecast::automatic);
  for (size_t mib = 100; mib < 300; mib += 20) use(mib), broken += step(ReleaseForecast::automatic);
  EXPECT_EQ(broken, 0u);
  EXPECT_GE(plan_->broken_by_rate(), 180 * kMiB);
}

TEST_F(ReleasePlanTest, AutoReleasesAFirstDropOnceItIsOver) {
  for (size_t mib = 300; mib > 50; mib -= 10) use(mib), step(ReleaseForecast::automatic);
  steps(6, ReleaseForecast::automatic);
  EXPECT_EQ(series_->level().backed, series_->level().used);
}

// 200 of 250 MiB go back as whole pages, and will have to be fetched.
TEST_F(ReleasePlanTest, AutoBreaksAPartOfWhatWentBackWhole) {
  constexpr size_t kWhole = 200 * kMiB;
  swings(4, 50, 300, 5, ReleaseForecast::automatic);
  for (int drop = 0; drop < 2; ++drop) {
    use(300);
    steps(5, ReleaseForecast::automatic);
    use(50);
    series_->change(-static_cast<int64_t>(kWhole / kBlockSize), 0, now_);
    EXPECT_EQ(step(ReleaseForecast::automatic, kAnyRate, kWhole), 0u) << "not at rest yet";
    EXPECT_EQ(steps(3, ReleaseForecast::automatic), 40 * kMiB);
    EXPECT_EQ(steps(3, ReleaseForecast::automatic), 0u) << "once";
  }
}

TEST_F(ReleasePlanTest, AutoBreaksNothingMoreWhileTheLoadIsHigh) {
  swings(4, 50, 400, 5, ReleaseForecast::automatic);
  constexpr size_t kWhole = 20 * kMiB;
  for (const size_t used : {360, 300}) {
    use(400);
    steps(5, ReleaseForecast::automatic);
    use(used);
    series_->change(-static_cast<int64_t>(kWhole / kBlockSize), 0, now_);
    size_t broken = step(ReleaseForecast::automatic, kAnyRate, kWhole);
    broken += steps(3, ReleaseForecast::automatic);
    EXPECT_EQ(broken, used == 300 ? 4 * kMiB : 0u);
  }
}

// A few sparse pages beside what is needed at the peak: they would be mended at once.
TEST_F(ReleasePlanTest, AutoLetsALittleBeWhileDemandMoves) {
  constexpr size_t kLittle = 4 * kMiB;
  swings(4, 50, 300, 5, ReleaseForecast::automatic);
  use(300);
  series_->change(kLittle / kBlockSize, 0, now_);
  EXPECT_EQ(steps(5, ReleaseForecast::automatic), 0u);
  EXPECT_EQ(steps(20, ReleaseForecast::automatic), kLittle) << "it has stopped moving";
}

TEST_F(ReleasePlanTest, AutoAwaitsDemandNoLongerThanItTook) {
  swings(4, 50, 300, 5, ReleaseForecast::automatic);
  EXPECT_LE(plan_->awaited(), Nanos::seconds(13)) << "it came back after 5 s";
  step(ReleaseForecast::peak);
  EXPECT_EQ(plan_->awaited(), kWindow);
}

TEST_F(ReleasePlanTest, AutoStopsWhereSkipsAreWrong) {
  swings(4, 50, 300, 5, ReleaseForecast::automatic);
  for (int i = 0; i < 4; ++i) {  // peaks far apart
    use(300);
    step(ReleaseForecast::automatic);
    use(50);
    steps(200, ReleaseForecast::automatic);
  }
  EXPECT_EQ(plan_->in_force(), ReleaseForecast::none);
}

TEST_F(ReleasePlanTest, NearALimitNothingIsSkipped) {
  use(300);
  step(ReleaseForecast::peak);
  use(50);
  EXPECT_EQ(step(ReleaseForecast::peak), 0u);
  now_ = now_ + Nanos::seconds(1);
  const ReleaseRules rules{0, kWindow, ReleaseForecast::peak, true};
  EXPECT_EQ(plan_->allow(now_, rules, *series_, 0), SIZE_MAX);
}

TEST_F(ReleasePlanTest, AWindowOfZeroExpectsNothing) {
  window_ = Nanos{0};
  use(300);
  step(ReleaseForecast::peak);
  use(50);
  EXPECT_EQ(step(ReleaseForecast::peak), 250 * kMiB);
}

TEST_F(ReleasePlanTest, AClockThatStandsOrJumpsDoesNoHarm) {
  use(300);
  step(ReleaseForecast::peak);
  use(50);
  plan_->allow(now_, {kAnyRate, Nanos::max(), ReleaseForecast::trend}, *series_, 0);
  plan_->note(0, 250 * kMiB);
  plan_->allow(Nanos::seconds(10), {kAnyRate, kWindow, ReleaseForecast::peak}, *series_, 0);
  plan_->note(0, 250 * kMiB);
  now_ = now_ + Nanos::seconds(100'000'000);
  EXPECT_LE(step(ReleaseForecast::peak), 300 * kMiB);
  steps(100, ReleaseForecast::peak);
  EXPECT_EQ(plan_->skips().pending(), 0u);
}

}  // namespace
}  // namespace llamalloc
