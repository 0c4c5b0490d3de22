// SPDX-License-Identifier: Apache-2.0
// How the gate judges placement while it is on.
#include <gtest/gtest.h>

#include <string>

#include "learning/test_gate.h"

namespace llamalloc {
namespace {

// ----- On -----

TEST(GateOnTest, StaysOnWhereItSaves) {
  Server server = next_run({});
  server.run({}, kDay);
  EXPECT_EQ(server.switches, 0);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  EXPECT_GT(server.gate.saved(), static_cast<int64_t>(700 * kMiB));
  EXPECT_NE(server.sentence().find("saves"), std::string::npos) << server.sentence();
}

TEST(GateOnTest, ATrialThatSavesNothingEndsBeforeTheLoadComesBack) {
  for (const Load& load : {useless(), without_gain()}) {
    Server server = next_run(load);
    server.run({.low = 0}, 10);
    EXPECT_TRUE(server.gate.is_on()) << "no trough yet";
    server.run({.high = 0, .placed = load.placed}, 5);
    EXPECT_FALSE(server.gate.is_on());
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
    EXPECT_EQ(server.gate.kept().reversals, 1);
    EXPECT_NE(server.sentence().find("given up 1 time"), std::string::npos) << server.sentence();
  }
}

// Troughs pin 90 % of the peak without it: an eighth of that is what high load may cost.
TEST(GateOnTest, ATrialThatCostsMuchAtHighLoadAwaitsNoTrough) {
  for (const double high : {0.14, 0.2}) {
    const bool dear = high > 0.05 + 0.9 / 8;
    Server server = next_run({});
    server.run({.low = 0, .placed = {high, 0.1}}, 7);
    EXPECT_NE(server.gate.is_on(), dear);
    EXPECT_EQ(server.gate.kept().verdict, dear ? GateVerdict::fails : GateVerdict::on_trial);
  }
}

TEST(GateOnTest, WhatHelpedBeforeAwaitsATrough) {
  Server good = next_run({});
  good.run({}, 40);
  GateKept kept = good.gate.kept();
  kept.age();
  ASSERT_EQ(kept.verdict, GateVerdict::on_trial);
  Server server(kept);
  server.run({.low = 0, .placed = {0.2, 0.1}}, 9);
  EXPECT_TRUE(server.gate.is_on());
}

// Its pages are among the holes of the trial.
TEST(GateOnTest, TheTroughAfterATrialThatEndedBeforeItSaysNothingOfBlindPlacement) {
  Server server = next_run({});
  const GateWaste blind = server.gate.kept().blind;
  server.run({.low = 0, .placed = {0.2, 0.1}}, 9);
  ASSERT_FALSE(server.gate.is_on());
  server.run({.high = 5, .blind = {0.3, 0.2}}, 30);
  EXPECT_EQ(server.gate.kept().blind, blind);
  server.run({}, 30);
  EXPECT_NE(server.gate.kept().blind.rounds, blind.rounds) << "but later ones do";
}

TEST(GateOnTest, ATrialThatSavesIsJudgedInItsFirstTrough) {
  Server server = next_run({});
  server.run({}, 15);
  EXPECT_TRUE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
}

// What pins a tenth more in each trough seems to save where a shallow one is beside a deep one.
TEST(GateOnTest, TroughsOfTwoDepthsAreComparedAtOne) {
  const auto troughs_of = [](double depth) {
    const double pins = 0.95 * (1 - depth);
    return Load{.depth = depth, .blind = {0.05, 0.8 * pins}, .placed = {0.05, 0.88 * pins}};
  };
  Server first;
  first.run(troughs_of(0.25), 40);
  ASSERT_EQ(first.gate.kept().verdict, GateVerdict::on_trial);
  Server server(first.gate.kept());
  for (int i = 0; i < 20; ++i) {
    server.run(troughs_of(0.43), 20);
    EXPECT_NE(server.gate.kept().verdict, GateVerdict::helps) << server.sentence();
    server.run(troughs_of(0.25), 20);
  }
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails) << server.sentence();
}

// Its contexts are known from the third wave on. The first seconds of a fall pin less than the
// whole troughs that were measured without placement.
TEST(GateOnTest, ATrialOfALoadThatDrainsIsJudgedByWholeTroughs) {
  for (const double depth : {0.1, 0.3}) {
    Load load{.depth = depth, .low = 30, .fall = 14, .blind = {0.05, 0.6}};
    load.placed = load.blind;
    Load unknown = load;
    unknown.short_share = 0;
    Server first;
    first.run(unknown, 80);
    first.run(load, 40);
    ASSERT_EQ(first.gate.kept().verdict, GateVerdict::on_trial);
    Server server(first.gate.kept());
    server.run(load, 81);
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails) << depth;
  }
}

// Its peak is forgotten as fast as it falls, so it has no trough. What is pinned is more by a lower
// peak, with placement and without.
TEST(GateOnTest, ALoadThatFallsSlowlyIsNoHighLoad) {
  const GateWaste blind{3, 100, 500, 300, 1900}, measured{3, 100, 200, 300, 1500};
  const GateWaste foretold{0, kNoFigure, 150};
  for (const auto& [verdict, placed] :
       {std::pair{GateVerdict::helps, measured}, std::pair{GateVerdict::on_trial, measured},
        std::pair{GateVerdict::on_trial, foretold}})
    for (const int fall : {kHour, 2 * kHour, 4 * kHour}) {
      Server server({verdict, 0, blind, placed, 1024});
      const Load day{.depth = 0.3,
                     .high = 12 * kHour,
                     .low = 12 * kHour,
                     .fall = fall,
                     .blind = {0.1, 0.5},
                     .placed = {0.1, 0.2}};
      server.run(day, kDay);
      EXPECT_NE(server.gate.kept().verdict, GateVerdict::fails) << server.sentence();
      server.run(day, kHour);
      EXPECT_TRUE(server.gate.is_on()) << fall << " s: " << server.sentence();
    }
}

// A start that loads data holds a sixth more than what follows, without troughs or with few.
TEST(GateOnTest, AnEarlySpikeIsForgotten) {
  const GateWaste blind{3, 50, 900, 200, 2000};
  const Load spike{.peak = 1200 * kMiB, .low = 0};
  Server costs({GateVerdict::helps, 0, blind, {3, 60, 100, 200, 1100}, 1024});
  costs.run(spike, 60);
  costs.run({.low = 0, .placed = {0.3, 0}}, 6 * kHour);
  EXPECT_FALSE(costs.gate.is_on());
  Server saves({GateVerdict::on_trial, 0, blind, {0, kNoFigure, 100}, 1024});
  saves.run(spike, 60);
  saves.run({.high = 1200, .low = 60}, 1260);
  EXPECT_EQ(saves.gate.kept().verdict, GateVerdict::helps) << saves.sentence();
  EXPECT_EQ(saves.switches, 0);
}

// Requests waited for a database; since then there are next to none.
TEST(GateOnTest, NothingThatIsLateAnyMoreIsNoFailure) {
  for (const bool goes_on : {true, false}) {
    Server server(
        {GateVerdict::helps, 0, {3, 100, 500, 300, 1900}, {3, 100, 200, 300, 1500}, 1024});
    GateFigures figures{.held = size_t{900} << 20, .live = size_t{800} << 20, .late = 0.4};
    for (int second = 0; second < 60; ++second) {
      figures.late_now = goes_on || second == 0;
      server.feed(figures);
    }
    EXPECT_EQ(server.gate.is_on(), !goes_on);
  }
}

TEST(GateOnTest, ATrialThatSavesNextToNothingEnds) {
  const Load load{.blind = {0.05, 0.3}, .placed = {0.05, 0.28}};
  Server server = next_run(load);
  server.run(load, 30);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

// A server of documents, of which some stay: 88 instead of 93 % of the peak, for a sixth more time.
TEST(GateOnTest, ATrialThatSavesLittleOfMuchEnds) {
  const Load load{.blind = {0.05, 0.93}, .placed = {0.05, 0.86}};
  Server server = next_run(load);
  server.run(load, 40);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

// One trough says how much it saves within a few parts in a hundred, and what is rare is known only
// after it.
TEST(GateOnTest, ATrialThatSavesNearlyEnoughHasAnotherTrough) {
  const Load load{.blind = {0.05, 0.51}, .placed = {0.05, 0.48}};
  Load better = load;
  better.placed.low = 0.4;
  Server server = next_run(load);
  server.run(load, 20);
  EXPECT_TRUE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  Server other = server;
  other.run(better, 20);
  EXPECT_EQ(other.gate.kept().verdict, GateVerdict::helps);
  Server next_start(server.gate.kept());
  for (Server* second : {&server, &next_start}) {
    second->run(load, 20);
    EXPECT_EQ(second->gate.kept().verdict, GateVerdict::fails);
  }
}

// A compiler has one trough in a run.
TEST(GateOnTest, WhatHelpedAndCostsEndsInTheSecondShortRun) {
  Server good = next_run({});
  good.run({}, 20);
  ASSERT_EQ(good.gate.kept().verdict, GateVerdict::helps);
  Server bad(good.gate.kept());
  bad.run(useless(), 21);
  EXPECT_EQ(bad.gate.kept().verdict, GateVerdict::on_trial) << "in doubt";
  Server worse(bad.gate.kept());
  worse.run(useless(), 21);
  EXPECT_EQ(worse.gate.kept().verdict, GateVerdict::fails);
}

TEST(GateOnTest, WhatHelpedGivesUpAfterTwoRoundsThatCostMore) {
  Server server = next_run({});
  server.run({}, 40);
  server.run(useless(), 21);
  EXPECT_TRUE(server.gate.is_on()) << "one bad round";
  server.run(useless(), 40);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

// The worker looks at such a wave between two steps only.
TEST(GateOnTest, WavesShorterThanAStepAreJudged) {
  Server server = next_run({});
  server.run({}, 20);
  for (int wave = 0; wave < 4; ++wave) {
    server.run({.high = 0, .placed = {0.2, 1.2}}, 5);
    server.gate.step(server.now + Nanos::millis(400), {1080 * kMiB, 1024 * kMiB, 0.95, 0.9});
  }
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

TEST(GateOnTest, WhatHelpedGivesUpLaterWithoutAGain) {
  Server server = next_run({});
  server.run({}, 40);
  server.run(without_gain(), 50);
  EXPECT_TRUE(server.gate.is_on());
  server.run(without_gain(), 60);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

TEST(GateOnTest, OneGoodRoundForgives) {
  Server server = next_run({});
  server.run({}, 100);
  for (int i = 0; i < 20; ++i) {
    server.run(useless(), 20);
    server.run({}, 40);
  }
  EXPECT_EQ(server.switches, 0);
}

TEST(GateOnTest, WhatItCostsAtHighLoadCounts) {
  Server server = next_run({});
  server.run({.placed = {1.2, 0.1}}, 100);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

TEST(GateOnTest, GivesUpWithoutTroughsIfItCostsAtHighLoad) {
  Server server(kept(GateVerdict::helps));
  server.run({.low = 0, .placed = {0.3, 0}}, kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
  Server cheap(kept(GateVerdict::helps));
  cheap.run({.low = 0}, kHour);
  EXPECT_TRUE(cheap.gate.is_on());
}

// The loads before had no long high part, and this one has no trough.
TEST(GateOnTest, ATrialThatNothingCanJudgeRestsUntilTheLoadGrows) {
  GateKept short_loads = kept(GateVerdict::on_trial);
  short_loads.blind.high = kNoFigure;
  Server server(short_loads);
  server.run(steady(), kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.switches, 1);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  Load larger = steady();
  larger.peak = 1400 * kMiB;
  server.run(larger, 5);
  EXPECT_TRUE(server.gate.is_on());
}

// It is never at rest, so it has neither a trough nor a high load to compare.
TEST(GateOnTest, ATrialOfALoadWithoutRestEnds) {
  Server server(kept(GateVerdict::on_trial));
  server.run({.depth = 0.9, .high = 1, .low = 1}, kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

TEST(GateOnTest, TroughsOfAnotherDepthAreNotCompared) {
  const Load other{.depth = 0.6, .placed = {0.06, 1.2}};
  Server good = next_run({});
  good.run({}, 40);
  const GateKept before = good.gate.kept();
  ASSERT_EQ(before.verdict, GateVerdict::helps);
  good.run(other, kHour);
  EXPECT_TRUE(good.gate.is_on());
  EXPECT_EQ(good.gate.kept().placed.low, before.placed.low);
}

// Else it never ends, whatever it costs.
TEST(GateOnTest, ATrialOfTroughsOfAnotherDepthRestsUntilTheLoadGrows) {
  const Load other{.depth = 0.6, .placed = {0.06, 1.2}};
  Server server = next_run({});
  const GateKept before = server.gate.kept();
  server.run(other, 20 * static_cast<int>(Gate::kOtherCosts - 1));
  EXPECT_TRUE(server.gate.is_on());
  server.run(other, 40);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  EXPECT_EQ(server.gate.kept().reversals, before.reversals);
  EXPECT_EQ(server.gate.kept().placed.rounds, before.placed.rounds);
}

TEST(GateOnTest, ATrialUnderALowerSteadyLoadRestsUntilItGrows) {
  Server server = next_run({});
  Load lower = steady();
  lower.peak /= 2;
  server.run(lower, kHour / 2);
  EXPECT_TRUE(server.gate.is_on());
  server.run(lower, kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

// A server before its users come pins as much of a small peak. Seen with Redis, whose 5,000 clients
// connect first.
TEST(GateOnTest, MuchLowerLoadsAreNotCompared) {
  Server server = next_run({});
  const uint32_t rounds = server.gate.kept().blind.rounds;
  Load small = useless();
  small.peak = 256 * kMiB;
  server.run(small, 20 * static_cast<int>(Gate::kOtherCosts - 1));
  EXPECT_TRUE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  EXPECT_EQ(server.gate.kept().blind.rounds, rounds);
  server.run({}, 40);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
}

// The first wave of a server is often lower than those that follow.
TEST(GateOnTest, ATrialThatCostsUnderALowerLoadIsGivenUp) {
  Load lower = useless();
  lower.peak = 600 * kMiB;
  Server server = next_run({});
  server.run(lower, 14);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
  lower.placed = {0.06, 0.9};
  Server like_blind = next_run({});
  like_blind.run(lower, 20);
  EXPECT_EQ(like_blind.gate.kept().verdict, GateVerdict::on_trial) << "it costs nothing";
}

// One file may serve large and small instances of a program.
TEST(GateOnTest, LowerLoadsThatItDoesNotHelpSwitchItOffUntilTheyGrow) {
  Server good = next_run({});
  good.run({}, 40);
  Server server(good.gate.kept());
  Load small = useless();
  small.peak = 256 * kMiB;
  server.run(small, 100);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps) << "of other loads";
  server.run(small, kHour);
  EXPECT_EQ(server.switches, 1);
  server.run({.peak = 400 * kMiB, .low = 0}, 5);
  EXPECT_TRUE(server.gate.is_on());
  EXPECT_FALSE(server.gate.is_late());
}

TEST(GateOnTest, LowerLoadsThatItHelpsKeepIt) {
  Server server = next_run({});
  server.run({}, 40);
  Load small;
  small.peak = 256 * kMiB;
  server.run(small, kHour);
  EXPECT_TRUE(server.gate.is_on());
}

// A server that starts at night: on again as soon as its users come.
TEST(GateOnTest, IdleHoursAreNoLoad) {
  Server server = next_run({});
  server.run({.peak = 100 * kMiB, .low = 0}, 8 * kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  EXPECT_NEAR(server.gate.kept().peak, 1024, 20);
  server.run({}, 40);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
}

TEST(GateOnTest, WhatALowLoadLeftIsForgottenWhenItGrows) {
  Server server;
  Load small;
  small.peak = 64 * kMiB;
  small.blind = {0.3, 0.4};
  server.run(small, 60);
  EXPECT_EQ(server.gate.kept().peak, 64);
  Load large;
  large.blind = {0.05, 0.2};
  large.short_share = 0.1;
  server.run(large, 120);
  EXPECT_EQ(server.gate.kept().peak, 1024);
  EXPECT_NEAR(server.gate.kept().blind.low, 200, 20) << "400 of the low load";
}

TEST(GateOnTest, WhatALargestLoadLeftIsForgottenAfterManyOthers) {
  Load once;
  once.peak = 10 * 1024 * kMiB;
  Load usual = useless();
  usual.peak = 5 * 1024 * kMiB;
  Server server = next_run(once);
  const int peak = server.gate.kept().peak;
  ASSERT_NEAR(peak, 10 * 1024, 200);
  server.run(usual, (Gate::kOtherRounds - 1) * 20);
  EXPECT_EQ(server.gate.kept().peak, peak) << "it may come back";
  server.run(usual, 80);
  EXPECT_NEAR(server.gate.kept().peak, 5 * 1024, 200);
  EXPECT_TRUE(server.gate.kept().is_valid());
  Server next(server.gate.kept());
  next.run(usual, 60);
  EXPECT_EQ(next.gate.kept().verdict, GateVerdict::fails) << "judged again";
}

TEST(GateOnTest, OtherLoadsBetweenDoNotMakeItForget) {
  Load small;
  small.peak = 256 * kMiB;
  Server server = next_run({});
  for (int i = 0; i < 5; ++i) {
    server.run(small, (Gate::kOtherRounds - 2) * 20);
    server.run({}, 40);
  }
  EXPECT_NEAR(server.gate.kept().peak, 1024, 20);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
}

TEST(GateOnTest, ForgetsWhileOffToo) {
  GateKept state = kept(GateVerdict::fails, Gate::kMostReversals);
  state.peak = 10 * 1024;
  Server server(state);
  server.run({.blind = {0.05, 0.2}}, (Gate::kOtherRounds + 2) * 20);
  EXPECT_EQ(server.gate.kept().peak, 1024);
  EXPECT_NEAR(server.gate.kept().blind.low, 200, 20);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
}

// More than the kept peak can say.
TEST(GateOnTest, TheLargestLoadsAreRememberedToo) {
  Load huge;
  huge.peak = 200 * 1024 * kMiB;
  huge.short_share = 0.1;
  Server server;
  server.run(huge, 100);
  EXPECT_EQ(server.gate.kept().peak, UINT16_MAX);
  EXPECT_GE(server.gate.kept().blind.rounds, 4u);
}

// The trough in which predictions fail began with placement: it does not say what blind pins.
TEST(GateOnTest, ATroughInWhichPredictionsFailIsNotMeasured) {
  for (const double pinned : {0.1, 0.45}) {
    GateKept state = kept(GateVerdict::helps);
    state.blind = {3, 50, 200, 400, 1500};
    state.placed = {3, 60, 100, 400, 1250};
    state.peak = 1024;
    Server server(state);
    const auto feed = [&](double live, double pins, double late, int seconds) {
      const double peak = 1024.0 * kMiB;
      for (int i = 0; i < seconds; ++i)
        server.feed({.held = static_cast<size_t>((live + pins) * peak),
                     .live = static_cast<size_t>(live * peak),
                     .late = late});
    };
    feed(1, 0.06, 0, 20);
    feed(0.4, pinned, 0, 10);
    feed(0.4, pinned, 0.5, static_cast<int>(Gate::kWrongSteps));
    ASSERT_EQ(server.gate.kept().verdict, GateVerdict::mistaken);
    feed(0.4, pinned, 0, 5);
    feed(1, 0.06, 0, 5);
    EXPECT_EQ(server.gate.kept().blind, state.blind);
    feed(0.4, 0.2, 0, 10);
    feed(1, 0.06, 0, 5);
    EXPECT_EQ(server.gate.kept().blind.rounds, state.blind.rounds + 1) << "the next one is";
  }
}

TEST(GateOnTest, GoesOffWithTheLoadAndComesBackWithIt) {
  Server server;
  server.run({}, kHour);
  server.run({.peak = 20 * kMiB}, 2 * kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_EQ(server.gate.kept().reversals, 0) << "nothing spoke against it";
  server.run({.low = 0}, 5);
  EXPECT_TRUE(server.gate.is_on()) << "known to help";
}

TEST(GateOnTest, ARunThatBeganWithItDoesNotEndLateAfterAQuietTime) {
  for (const GateVerdict verdict : {GateVerdict::on_trial, GateVerdict::helps}) {
    Server server = next_run({});
    server.run({.low = 0}, 10);
    if (verdict == GateVerdict::helps) server.run({}, 40);
    ASSERT_EQ(server.gate.kept().verdict, verdict);
    server.run({.peak = 20 * kMiB, .low = 0}, 2 * kHour);
    ASSERT_FALSE(server.gate.is_on());
    server.run({.low = 0}, 5);
    EXPECT_TRUE(server.gate.is_on());
    EXPECT_FALSE(server.gate.is_late());
    server.run({}, 40);
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  }
}

// ----- Hysteresis -----

TEST(GateOnTest, NoiseDoesNotMakeItFlap) {
  for (double pins : {0.02, 0.03, 0.032, 0.035, 0.05}) {
    Server helped, not_helped;
    helped.run({.blind = {0.01, pins}, .placed = {0.01, pins / 3}, .noise = 0.3}, kDay);
    EXPECT_LE(helped.switches, 3) << pins;  // off once in a day, when the peak was low for long
    not_helped.run({.blind = {0.05, pins}, .placed = {0.06, pins}, .noise = 0.3}, kDay);
    EXPECT_LE(not_helped.switches, 2 * Gate::kMostReversals) << pins;
  }
}

TEST(GateOnTest, FiveReversalsAreTheLast) {
  GateKept state = kept(GateVerdict::on_trial);
  for (int run = 0; run < 2 * Gate::kMostReversals; ++run) {
    Server server(state);
    server.run(useless(), kDay);
    state = server.gate.kept();
  }
  EXPECT_EQ(state.reversals, Gate::kMostReversals);
  Server server(state);
  EXPECT_NE(server.sentence().find("off for good"), std::string::npos) << server.sentence();
  const int switches = server.switches;
  server.run(useless(), kDay);
  EXPECT_EQ(server.switches, switches);
}

TEST(GateOnTest, EachPauseIsLonger) {
  Server server;
  Nanos pause{};
  for (int reversal = 1; reversal < 4; ++reversal) {
    for (int i = 0; i < 1000 && server.gate.kept().reversals < reversal; ++i)
      server.run(useless(), 20);
    const Nanos before = server.now;
    for (int i = 0; i < 1000 && !server.gate.is_on(); ++i) server.run(useless(), 20);
    EXPECT_GT(server.now - before, pause + Nanos::seconds(240)) << reversal;
    pause = server.now - before;
  }
}

}  // namespace
}  // namespace llamalloc
