// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "learning/test_gate.h"

namespace llamalloc {
namespace {

// ----- Blind -----

TEST(GateTest, TheFirstDeepTroughPutsTheNextStartOnTrial) {
  Server server;
  server.run({}, 10);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << "high so far";
  server.run({.high = 0}, 5);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  EXPECT_NE(server.sentence().find("off until the next start"), std::string::npos)
      << server.sentence();
  char text[Gate::kSentence];
  server.gate.describe(text, sizeof(text), false);
  EXPECT_EQ(strstr(text, "next start"), nullptr) << text;
  const Server next(server.gate.kept());
  EXPECT_TRUE(next.gate.is_on());
  EXPECT_FALSE(next.gate.is_late());
  EXPECT_NE(next.sentence().find("on trial"), std::string::npos) << next.sentence();
}

// Samples of what stays have to be some seconds old before a context is decided.
TEST(GateTest, LivesThatAreKnownLateInATroughCountAtOnce) {
  Server server;
  server.run({}, 10);
  server.run({.high = 0, .long_share = 0}, 4);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried);
  server.run({.high = 0}, 1);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

// As in Redis, whose contexts are decided ten seconds after its load began to fall: then sparse
// pages have gone back.
TEST(GateTest, ATroughCountsWhoseMemoryHasGoneBackSinceThen) {
  Server server;
  server.run({}, 10);
  server.run({.high = 0, .blind = {0, 0.6}, .long_share = 0}, 8);
  server.run({.high = 0, .blind = {0, 0.003}, .long_share = 0}, 2);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried);
  server.run({.high = 0, .blind = {0, 0.003}}, 1);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial) << server.sentence();
}

TEST(GateTest, ATroughWhoseMemoryGoesBackAtOnceDoesNot) {
  for (const int seconds : {1, 2}) {
    Server server;
    server.run({}, 10);
    server.run({.high = 0, .blind = {0, 0.6}}, seconds);
    server.run({.high = 0, .blind = {0, 0.003}}, 100);
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
  }
}

TEST(GateTest, NeitherDoesOneThatWasLargeForAShortTime) {
  Server server;
  server.run({}, 10);
  server.run({.high = 0, .blind = {0, 0.6}, .long_share = 0}, 4);
  server.run({.high = 0, .blind = {0, 0.003}, .long_share = 0}, 14);
  server.run({.high = 0, .blind = {0, 0.003}}, 100);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
}

TEST(GateTest, NorOneThatWasLargeInASmallHeap) {
  constexpr size_t kPeak = 60 * kMiB;
  Server server;
  server.run({.peak = kPeak}, 10);
  server.run({.peak = kPeak, .high = 0, .blind = {0, 0.6}, .long_share = 0}, 4);
  server.run({.peak = kPeak, .high = 0, .blind = {0, 0.003}, .long_share = 0}, 3);
  server.run({.peak = kPeak, .high = 0, .blind = {0, 0.003}}, 1);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
}

// What the load's troughs pinned before is not what this one's end does.
TEST(GateTest, NorTheEndOfALongOneThatPinsLittle) {
  Server server;
  server.run({}, 10);
  server.run({.high = 0, .blind = {0, 0.6}, .long_share = 0}, 40);
  server.run({.high = 0, .blind = {0, 0.05}}, 20);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
}

TEST(GateTest, NorOneThatIsDenseOnAverage) {
  Server server;
  server.run({}, 10);
  server.run({.depth = 0.7, .high = 0, .blind = {0, 0.5}, .long_share = 0}, 4);
  server.run({.depth = 0.7, .high = 0, .blind = {0, 0.2}, .long_share = 0}, 12);
  server.run({.depth = 0.7, .high = 0, .blind = {0, 0.2}}, 8);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
}

TEST(GateTest, NorOneThatPinsLittleAfterOneThatPinnedMuch) {
  Server server;
  server.run({}, 10);
  server.run({.high = 0, .blind = {0, 0.6}, .long_share = 0}, 8);
  server.run({}, 10);
  server.run({.high = 0, .blind = {0, 0.05}}, 10);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
}

// Lookups may take 12 % of the time where 40 % of the peak is saved, also once it has gone back.
TEST(GateTest, WhatATroughWouldHaveSavedPaysForLookups) {
  for (const double time : {0.08, 0.2}) {
    Server server;
    server.run({.time = time}, 10);
    server.run({.high = 0, .blind = {0, 0.6}, .long_share = 0, .time = time}, 8);
    server.run({.high = 0, .blind = {0, 0.003}, .time = time}, 2);
    EXPECT_EQ(server.gate.kept().verdict == GateVerdict::on_trial, time < 0.1);
  }
}

TEST(GateTest, SecondsOfOtherTroughsProveNothing) {
  Server server;
  server.run({}, 10);
  server.run({.depth = 0.3, .high = 0, .blind = {0, 0.6}, .long_share = 0}, 4);
  server.run({.depth = 0.3, .high = 0, .blind = {0, 0.003}, .long_share = 0}, 5);
  server.run({}, 10);
  server.run({.depth = 0.3, .high = 0, .blind = {0, 0.6}}, 2);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << "the first one is on its way";
  server.run({.depth = 0.3, .high = 0, .blind = {0, 0.6}}, 2);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial) << server.sentence();
}

TEST(GateTest, AtItsEndAProcessDecidesOnceMore) {
  for (const bool last : {false, true}) {
    Server server;
    server.run({}, 10);
    server.run({.high = 0, .long_share = 0}, 4);
    server.gate.step(server.now + Nanos::millis(300), {1000 * kMiB, 5 * kMiB, 0.95, 0.9, 0, 0},
                     last);
    EXPECT_EQ(server.gate.kept().verdict == GateVerdict::on_trial, last);
  }
}

TEST(GateTest, WhatIsFreedAtTheEndIsNoWasteOfPlacement) {
  GateKept kept[2];
  for (const bool ends : {false, true}) {
    Server server = next_run({});
    server.run({}, 12);
    ASSERT_TRUE(server.gate.is_on());
    if (ends) server.gate.step(server.now, {1000 * kMiB, 5 * kMiB, 0.95, 0.9, 0, 0}, true);
    server.run({.high = 0}, 4);
    server.run({}, 5);
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps) << server.sentence();
    kept[ends] = server.gate.kept();
  }
  EXPECT_EQ(kept[0], kept[1]);
}

// As a compiler: it fills the heap once, and never again.
TEST(GateTest, ALoadThatDoesNotComeBackStaysBlind) {
  Server server;
  server.run({}, 10);
  server.run({.high = 0, .low = 1}, 250);
  EXPECT_EQ(server.switches, 0) << "new pages beside those that blind placement left cost memory";
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

TEST(GateTest, ALoadThatComesBackEngagesItInTheNextTrough) {
  Server server;
  server.run({}, 30);
  EXPECT_FALSE(server.gate.is_on());
  server.run({.high = 0}, 5);
  EXPECT_TRUE(server.gate.is_late());
  EXPECT_NE(server.sentence().find("for what lives long"), std::string::npos) << server.sentence();
  EXPECT_TRUE(Gate(server.gate.kept()).is_on());
}

TEST(GateTest, ASteadyLoadNever) {
  Server server;
  server.run(steady(), kDay);
  EXPECT_EQ(server.switches, 0) << "however much is pinned";
  EXPECT_NE(server.sentence().find("off: no trough of the load was seen"), std::string::npos);
}

TEST(GateTest, ASmallHeapNever) {
  Server server;
  server.run({.peak = 30 * kMiB}, kHour);
  EXPECT_EQ(server.switches, 0);
  EXPECT_NE(server.sentence().find("pin little"), std::string::npos) << server.sentence();
}

TEST(GateTest, DenseTroughsNever) {
  Server server;
  server.run({.depth = 0.7, .blind = {0.05, 0.25}}, kHour);
  EXPECT_EQ(server.switches, 0) << "held/live 1.36";
}

TEST(GateTest, TroughsThatPinLittleOfTheirPeakNever) {
  Server server;
  server.run({.peak = 512 * kMiB, .depth = 0.15, .blind = {0.1, 0.09}}, 100);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried);
  EXPECT_NE(server.sentence().find("troughs pin little"), std::string::npos) << server.sentence();
  server.run({.peak = 512 * kMiB, .depth = 0.15, .blind = {0.1, 0.19}}, 100);
  EXPECT_NE(server.gate.kept().verdict, GateVerdict::untried);
}

// Their troughs pin a third to a half of the peak, and would go on doing so: by the shares of
// clang, clangd, a load with random eviction, and one whose sessions end in waves.
TEST(GateTest, PinnedByWhatIsNotSeparatedNever) {
  constexpr double kShares[][2] = {{0.54, 0.39}, {0.53, 0.02}, {0.17, 0.05}, {0.05, 0.9}};
  for (const auto& [short_share, long_share] : kShares) {
    Server server;
    server.run({.blind = {0.05, 0.5}, .short_share = short_share, .long_share = long_share}, 100);
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
  }
}

// What died left pages that its own kind keeps. Samples that missed the peak cannot say so.
TEST(GateTest, WhatDiesAmongItsOwnKindThatStaysNever) {
  Server server;
  server.run({.parted = 0.1, .seen = 0.9}, 100);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried) << server.sentence();
  Server missed;
  missed.run({.parted = 0.1, .seen = 0.7}, 20);
  EXPECT_EQ(missed.gate.kept().verdict, GateVerdict::on_trial) << missed.sentence();
}

TEST(GateTest, ItSaysWhatPlacementWouldSave) {
  Server server;
  server.run({.blind = {0.05, 0.5}, .short_share = 0.5, .long_share = 0.25}, 20);
  const std::string said = server.sentence();
  EXPECT_NE(said.find("trough 512 MiB, of which it would save 64 MiB"), std::string::npos) << said;
}

// The peak that a trough is measured by is forgotten within minutes.
TEST(GateTest, ALongTroughThatPinsLittleOfItsPeakDoesNotEither) {
  Server server;
  server.run({.peak = 512 * kMiB, .depth = 0.15, .low = 200, .blind = {0.1, 0.09}}, 210);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried);
}

TEST(GateTest, LivesThatDoNotSeparateNever) {
  Server server;
  server.run({.short_share = 0.1}, kHour);
  server.run({.long_share = 0.1}, kHour);
  EXPECT_EQ(server.switches, 0);
  EXPECT_NE(server.sentence().find("do not separate"), std::string::npos) << server.sentence();
}

TEST(GateTest, NothingIsProvenWhileTheLoadFalls) {
  Server server;
  server.run({}, 10);
  for (size_t left = 10; left > 0; --left) server.feed({1024 * kMiB, left * 100 * kMiB, 0.95, 0.9});
  EXPECT_EQ(server.switches, 0);
}

TEST(GateTest, PeaksBetweenTheStepsAreSeen) {
  Server server;
  server.feed({300 * kMiB, 100 * kMiB, 0.95, 0.9});
  server.gate.step(server.now + Nanos::millis(300), {320 * kMiB, 300 * kMiB, 0.95, 0.9});
  for (int i = 0; i < 4; ++i) server.feed({300 * kMiB, 100 * kMiB, 0.95, 0.9});
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

// ----- Kept state -----

TEST(GateTest, WhatHelpedIsOnFromTheStart) {
  EXPECT_TRUE(Gate(kept(GateVerdict::helps)).is_on());
  EXPECT_TRUE(Gate(kept(GateVerdict::on_trial)).is_on());
  EXPECT_FALSE(Gate().is_on());
  Server server(kept(GateVerdict::helps));
  server.run({}, kHour);
  EXPECT_EQ(server.switches, 0);
}

TEST(GateTest, WhatFailedStaysOff) {
  Server once(kept(GateVerdict::fails, 1));
  once.run({}, 500);
  EXPECT_EQ(once.switches, 0);
  once.run({}, kHour);
  EXPECT_EQ(once.gate.kept().verdict, GateVerdict::helps) << "it has another try";
  Server often(kept(GateVerdict::fails, Gate::kMostReversals));
  often.run({}, kDay);
  EXPECT_EQ(often.switches, 0);
}

TEST(GateTest, AgedStateIsTriedAgain) {
  GateKept state = kept(GateVerdict::fails, Gate::kMostReversals);
  state.peak = 10 * 1024;
  state.age();
  EXPECT_TRUE(state.is_valid());
  EXPECT_EQ(state.peak, 0) << "measured long ago";
  Server server(state);
  server.run({}, 40);
  EXPECT_TRUE(server.gate.is_on());
  GateKept good = kept(GateVerdict::helps);
  good.age();
  EXPECT_TRUE(Gate(good).is_on());
}

// As in short runs, none of which has many rounds.
TEST(GateTest, ATrialThatNeverEndsIsForgottenWithAge) {
  GateKept state = kept(GateVerdict::on_trial);
  state.peak = 10 * 1024;
  state.age();
  EXPECT_EQ(state, GateKept{});
}

TEST(GateTest, WhatAFileMayNotSayCountsAsNothing) {
  GateKept verdict = kept(static_cast<GateVerdict>(kGateVerdicts));
  GateKept reversals = kept(GateVerdict::helps, Gate::kMostReversals + 1);
  GateKept share = kept(GateVerdict::helps), nothing = kept(GateVerdict::helps);
  share.blind.low = UINT32_MAX;
  nothing.blind.rounds = 0;
  for (const GateKept& bad : {verdict, reversals, share, nothing}) {
    EXPECT_FALSE(bad.is_valid());
    EXPECT_FALSE(Gate(bad).is_on());
  }
  EXPECT_TRUE(GateKept{}.is_valid());
}

TEST(GateTest, WhatItKeepsIsValid) {
  for (const Load& load : {Load{}, useless(), without_gain(), steady(), Load{.peak = 0}}) {
    Server server;
    for (int i = 0; i < 500; ++i) {
      server.run(load, 17);
      ASSERT_TRUE(server.gate.kept().is_valid()) << i;
      ASSERT_LT(server.sentence().size(), Gate::kSentence - 1) << "cut off";
    }
  }
}

// ----- Odd worlds -----

TEST(GateTest, ClocksAndFiguresMayBeAnything) {
  Server server;
  server.run({}, 100);
  const Nanos last = server.now;
  for (Nanos at : {Nanos{0}, last, last + Nanos::seconds(10 * kDay), Nanos{1}, Nanos::max()})
    for (size_t bytes : {size_t{0}, size_t{1}, ~size_t{0}})
      server.gate.step(at, {bytes, ~bytes, 2.0, -1.0});
  EXPECT_TRUE(server.gate.kept().is_valid());
  EXPECT_LT(server.sentence().size(), Gate::kSentence - 1);
}

TEST(GateTest, TheOptionComesFirst) {
  EXPECT_FALSE(segregates(Segregate::automatic, false));
  EXPECT_TRUE(segregates(Segregate::automatic, true));
  EXPECT_TRUE(segregates(Segregate::always, false));
  EXPECT_FALSE(segregates(Segregate::never, true));
}

// ----- Predictions that do not hold -----

GateFigures wrong(const Load& load, double older, double late) {
  return {2 * load.peak, load.peak, load.short_share, load.long_share, older, late};
}

TEST(GateTest, PlacementByPredictionsThatDoNotHoldIsGivenUpAtOnce) {
  for (const auto& figures : {wrong({}, 0.4, 0), wrong({}, 0, 0.4)}) {
    Server server(kept(GateVerdict::on_trial));
    server.feed(wrong({}, 0.3, 0.3));
    EXPECT_TRUE(server.gate.is_on()) << "a few are normal";
    server.feed(figures);
    EXPECT_FALSE(server.gate.is_on());
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::mistaken) << "nothing was measured";
    EXPECT_NE(server.sentence().find("predictions do not hold"), std::string::npos)
        << server.sentence();
    server.feed(wrong({}, 0, 0));
    EXPECT_NE(server.sentence().find("predictions failed"), std::string::npos) << server.sentence();
  }
}

// Requests hang as long as the database behind the server does: what dies within 10 ms else is old.
TEST(GateTest, AStallOfSomeSecondsEndsNoPlacementThatHelps) {
  Server server(kept(GateVerdict::helps));
  for (int stall = 0; stall < 10; ++stall) {
    for (int i = 0; i < 20; ++i) server.feed(wrong({}, 0.8, 0));
    server.feed(wrong({}, 0, 0));
  }
  EXPECT_EQ(server.switches, 0);
  EXPECT_EQ(server.gate.kept(), kept(GateVerdict::helps));
  for (uint32_t i = 0; i < Gate::kWrongSteps; ++i) server.feed(wrong({}, 0.8, 0));
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::mistaken) << "that is no stall";
}

TEST(GateTest, RoundsThatHelpForgiveThatItWasGivenUp) {
  Server server(kept(GateVerdict::helps, Gate::kMostReversals));
  server.run({}, 60);
  EXPECT_LT(server.gate.kept().reversals, Gate::kMostReversals);
  EXPECT_GT(server.gate.kept().reversals, 0) << "one with each round";
  server.run({}, 200);
  EXPECT_EQ(server.gate.kept().reversals, 0);
}

// With rounds measured before: their figures are not why.
TEST(GateTest, TheNextRunKnowsThatPredictionsFailed) {
  Server server(kept(GateVerdict::mistaken, 1));
  EXPECT_NE(server.sentence().find("given up 1 times, as predictions failed"), std::string::npos)
      << server.sentence();
  server.run({}, 500);
  EXPECT_EQ(server.switches, 0) << "it rests";
  server.run({}, kHour);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps) << "and has another try";
  Server last(kept(GateVerdict::mistaken, Gate::kMostReversals));
  EXPECT_NE(last.sentence().find("off for good"), std::string::npos) << last.sentence();
}

TEST(GateTest, PredictionsThatDoNotHoldProveNothing) {
  Server server;
  for (int i = 0; i < 60; ++i) {
    const bool low = i % 20 >= 10;
    const size_t peak = Load{}.peak;
    server.feed({peak, low ? peak / 100 : peak, 0.95, 0.9, 0.9, 0});
  }
  EXPECT_EQ(server.switches, 0);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::untried);
}

// At night the peak of the day is forgotten in minutes, and what troughs pin is much by that of the
// night.
TEST(GateTest, TheNightIsNoHighLoadOfTheDay) {
  Server server;
  for (int day = 0; day < 3; ++day)
    server.run({.depth = 0.3,
                .high = 12 * kHour,
                .low = 12 * kHour,
                .blind = {0.1, 0.5},
                .short_share = 0},
               kDay);
  EXPECT_EQ(server.gate.kept().blind.rounds, 3u);
  EXPECT_NEAR(server.gate.kept().blind.high, 100, 5);
  for (const int evening : {4 * kHour, 1})  // one without a trough: its round goes on
    server.run({.depth = 0.3,
                .high = 12 * kHour,
                .low = 12 * kHour,
                .fall = evening,
                .blind = {0.1, 0.5},
                .short_share = 0},
               kDay);
  EXPECT_NEAR(server.gate.kept().blind.high, 100, 20);
}

// What a profile tells: the trough may not be over.
TEST(GateTest, TheLastRoundIsMeasured) {
  Server server;
  server.run({.short_share = 0}, 15);
  EXPECT_EQ(server.gate.kept().blind.rounds, 0u);
  const GateKept measured = server.gate.measured();
  EXPECT_EQ(measured.blind.rounds, 1u);
  EXPECT_NEAR(measured.blind.low, 900, 60);
  EXPECT_EQ(measured.verdict, GateVerdict::untried);
}

// ----- Recorded loads, placed blind: `llamalloc simulate TRACE` with predictor none -----

struct Point {
  size_t held, live;  // MiB
};

template <size_t N>
bool puts_on_trial(const Point (&points)[N], double short_share, double long_share) {
  Server server;
  for (const Point& point : points) {
    server.gate.step(server.now + Nanos::millis(100),
                     {point.held * kMiB, point.live * kMiB, short_share, long_share});
    server.feed({point.held * kMiB, point.live * kMiB, short_share, long_share});
  }
  return server.gate.kept().verdict == GateVerdict::on_trial;
}

constexpr Point kRedis[] = {{2, 1},     {22, 20},   {56, 48},   {20, 2},    {24, 23},   {56, 45},
                            {56, 31},   {22, 21},   {64, 62},   {64, 58},   {64, 46},   {94, 92},
                            {98, 64},   {98, 84},   {196, 178}, {196, 112}, {196, 118}, {196, 117},
                            {196, 121}, {196, 112}, {196, 123}, {196, 119}, {100, 60},  {100, 60}};
constexpr Point kClang[] = {{6, 3},     {48, 45},   {96, 92},   {136, 131}, {174, 171},
                            {202, 198}, {231, 226}, {255, 251}, {171, 63},  {172, 70},
                            {174, 72},  {174, 74},  {174, 75},  {174, 77},  {171, 60}};
constexpr Point kMariadb[] = {{2, 0},   {49, 46}, {55, 48}, {51, 47}, {63, 56}, {83, 73}, {71, 65},
                              {65, 57}, {63, 58}, {61, 53}, {61, 51}, {73, 67}, {69, 64}, {99, 92},
                              {73, 64}, {63, 52}, {65, 54}, {63, 51}, {63, 51}};
constexpr Point kNginx[] = {{4, 2},  {4, 3},   {16, 13}, {16, 12}, {10, 4}, {8, 4},
                            {10, 9}, {20, 18}, {20, 5},  {14, 2},  {14, 2}, {8, 2}};

TEST(GateTest, OnForRecordedLoadsThatGain) {
  EXPECT_TRUE(puts_on_trial(kRedis, 0.97, 0.5));
}

TEST(GateTest, OffForRecordedLoadsThatLose) {
  EXPECT_FALSE(puts_on_trial(kClang, 0.54, 0.39));
  EXPECT_FALSE(puts_on_trial(kMariadb, 0.99, 0.9));
  EXPECT_FALSE(puts_on_trial(kNginx, 0.99, 0.9));
  EXPECT_FALSE(puts_on_trial(kRedis, 0.2, 0.1)) << "with lives as under random eviction";
}

}  // namespace
}  // namespace llamalloc
