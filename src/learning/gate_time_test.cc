// SPDX-License-Identifier: Apache-2.0
// What placement takes of the processor, as the gate sees it.
#include <gtest/gtest.h>

#include <string>

#include "learning/test_gate.h"
#include "placement/lookup_time.h"

namespace llamalloc {
namespace {

// By default troughs pin 90 % of the peak, of which 0.95 x 0.9 would go, and 10 % with placement.
constexpr double kForetold = 0.9 * 0.95 * 0.9, kSaved = 0.8;

Load dear(double time) {
  Load load;
  load.time = time;
  return load;
}

TEST(GateTimeTest, ATrialThatWouldTakeTooLongDoesNotBegin) {
  Server server;
  server.run(dear(kForetold * Gate::kTimeForMemory + 0.01), kHour);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried);
  EXPECT_EQ(server.switches, 0);
  EXPECT_NE(server.sentence().find("off: it would take 24 % of the processor time, and save 7"),
            std::string::npos)
      << server.sentence();
  server.run(dear(kForetold * Gate::kTimeForMemory - 0.01), kHour);
  EXPECT_NE(server.gate.kept().verdict, GateVerdict::untried) << "it is cheap enough by now";
}

TEST(GateTimeTest, LittleTimeIsSpentForLittleMemory) {
  Load little = dear(Gate::kMostTime + 0.01);
  little.blind = {0.05, 0.5};
  little.long_share = 0.33;
  Server server;
  server.run(little, kHour);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
  little.time = Gate::kMostTime;
  server.run(little, kHour);
  EXPECT_NE(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
}

// What a busy start took outlives it in the mean.
TEST(GateTimeTest, ABusyStartIsNoReason) {
  Server server(kept(GateVerdict::helps));
  LookupTime time;
  uint64_t lookups = 0;
  Nanos used{};
  Load load;
  for (int s = 0; s < 600; ++s) {
    const double worked = s < 20 ? 1 : 0.05, share = s < 20 ? 0.5 : 0.01;
    used = used + Nanos{static_cast<int64_t>(worked * 1e9)};
    lookups += static_cast<uint64_t>(worked * share * 1e9);
    time.step(lookups, used);
    if (s == 60) {
      EXPECT_GT(time.share(), 0.4);
    }
    const bool high = s / 10 % 2 == 0;
    const double peak = 1024.0 * kMiB, live = high ? peak : 0.005 * peak;
    const double pinned = (high ? load.placed.high : load.placed.low) * peak;
    server.feed({.held = static_cast<size_t>(live + pinned),
                 .live = static_cast<size_t>(live),
                 .short_share = 0.95,
                 .long_share = 0.9,
                 .time = time.share(),
                 .time_now = time.share_now()});
  }
  EXPECT_TRUE(server.gate.is_on()) << server.sentence();
}

// What frees the last wave looks nothing up, and between waves the process rests.
TEST(GateTimeTest, WavesAreAsDearAsALoadThatStays) {
  constexpr double kMuch = 2 * kSaved * Gate::kTimeForMemory;
  const auto runs = [](int wave, int frees, int rests) {
    Server server(kept(GateVerdict::helps));
    const Load load;
    int second = 0;
    for (; second < 120 && server.gate.is_on(); ++second) {
      const int at = second % (wave + frees + rests);
      const double pinned = (at < wave ? load.placed.high : load.placed.low) * 1024 * kMiB;
      const double live = (at < wave ? 1024 : 1024 * load.depth) * kMiB;
      server.feed({.held = static_cast<size_t>(live + pinned),
                   .live = static_cast<size_t>(live),
                   .short_share = 0.95,
                   .long_share = 0.9,
                   .time = kMuch,
                   .time_now = at < wave           ? kMuch
                               : at < wave + frees ? 0
                                                   : -1});
    }
    return second;
  };
  EXPECT_LT(runs(1, 2, 2), 40);
  EXPECT_LT(runs(2, 9, 0), 60);
  EXPECT_LT(runs(15, 0, 60), 120) << "a long rest counts as ten seconds";
  EXPECT_GT(runs(15, 0, 60), 77);
  EXPECT_EQ(runs(20, 10, 0), 120) << "so long it was cheap";
}

TEST(GateTimeTest, WhatWasSavedUnderAHigherLoadBuysNothingUnderALowOne) {
  GateKept high = kept(GateVerdict::helps);
  high.peak = 10240;
  Server server(high);
  Load low = dear(0.25);
  server.run(low, 60);
  EXPECT_TRUE(server.gate.is_on());
  low.time = 0.35;
  server.run(low, 60);
  EXPECT_FALSE(server.gate.is_on()) << "by a tenth of the peak it is not 8 times as much";
}

TEST(GateTimeTest, WhatHelpsGoesOffWhenItTakesTooLong) {
  Server server(kept(GateVerdict::helps));
  constexpr double kLimit = kSaved * Gate::kTimeForMemory * Gate::kTooDear;
  server.run(dear(kLimit - 0.03), kHour);
  EXPECT_TRUE(server.gate.is_on());
  constexpr double kMuch = kLimit + 0.03;
  server.run(dear(kMuch), Gate::kDearSteps - 1);
  EXPECT_TRUE(server.gate.is_on()) << "a start may allocate much";
  server.run(dear(0), 1);
  server.run(dear(kMuch), Gate::kDearSteps - 1);
  EXPECT_TRUE(server.gate.is_on());
  server.run(dear(kMuch), 1);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
  EXPECT_EQ(server.gate.kept().reversals, 1);
  EXPECT_NE(server.sentence().find("given up 1 times, as it took 32 % of the processor time"),
            std::string::npos)
      << server.sentence();
  server.run(dear(kMuch), kDay);
  EXPECT_EQ(server.gate.kept().reversals, 1) << "it is not tried again while it is dear";
}

}  // namespace
}  // namespace llamalloc
