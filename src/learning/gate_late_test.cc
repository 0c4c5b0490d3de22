// SPDX-License-Identifier: Apache-2.0
// Placement that begins late: in a heap that was filled blind.
#include "learning/test_gate.h"

namespace llamalloc {
namespace {

// A trough that pins much begins the look at contexts. It may be a later one that proves that
// placement pays, and from that one on the load has to come back.
TEST(GateLateTest, ItBeginsWithTheLoadAfterTheTroughThatProvesIt) {
  Load unknown;
  unknown.long_share = 0;
  Server server;
  server.run(unknown, 20);
  EXPECT_TRUE(server.gate.seeks_contexts());
  EXPECT_FALSE(server.gate.is_armed() || server.gate.came_back());
  server.run(unknown, 10);
  EXPECT_TRUE(server.gate.came_back());
  server.run({}, 18);
  EXPECT_TRUE(server.gate.is_armed());
  EXPECT_FALSE(server.gate.came_back());
  EXPECT_FALSE(server.gate.is_on());
  server.run({}, 18);
  EXPECT_TRUE(server.gate.is_late());
}

// Its pages lie beside blind ones: this says little of the next run.
TEST(GateLateTest, OneBadTroughDoesNotEndWhatBeganLate) {
  Server server;
  server.run(useless(), 35);
  ASSERT_TRUE(server.gate.is_late());
  server.run(useless(), 21);
  EXPECT_TRUE(server.gate.is_late());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

// In a server that runs for long it is late from the second wave on. So the next start would never
// be a trial.
TEST(GateLateTest, WhatBeganLateAndCostsEndsWithoutAVerdict) {
  Server server;
  server.run(useless(), 35);
  ASSERT_TRUE(server.gate.is_late());
  const uint32_t foretold = server.gate.kept().placed.low;
  server.run(useless(), 100);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_TRUE(server.gate.has_ended());
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  EXPECT_EQ(server.gate.kept().reversals, 0);
  EXPECT_EQ(server.gate.kept().placed.rounds, 0u);
  EXPECT_EQ(server.gate.kept().placed.low, foretold) << "of a trial";
  EXPECT_NE(server.sentence().find("off until the next start, or until it is tried again"),
            std::string::npos)
      << server.sentence();
  Server next(server.gate.kept());
  EXPECT_TRUE(next.gate.is_on());
  EXPECT_FALSE(next.gate.has_ended());
  next.run({}, 20);
  EXPECT_EQ(next.gate.kept().verdict, GateVerdict::helps);
}

TEST(GateLateTest, LateItIsTriedEverMoreRarely) {
  Server server;
  server.run(useless(), kHour);
  EXPECT_GT(server.switches, 4);
  const int first = server.switches;
  server.run(useless(), kDay);
  EXPECT_LT(server.switches, first + 12);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
}

TEST(GateLateTest, WhatEndedLateAndSavesNowOnlyRestsUnderALowLoad) {
  Server server;
  server.run(useless(), 135);
  ASSERT_TRUE(server.gate.has_ended());
  server.run({}, 2 * kHour);
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  server.run({.peak = 16 * kMiB}, kHour);
  EXPECT_FALSE(server.gate.is_on());
  EXPECT_FALSE(server.gate.has_ended()) << "the load may come back";
}

// A start on trial showed it: the next one is not the same again.
TEST(GateLateTest, LateAfterAFailedTrialItIsAVerdict) {
  Server server(kept(GateVerdict::fails, 1));
  server.run(useless(), 3 * kHour);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::fails);
  EXPECT_GT(server.gate.kept().reversals, 1);
}

TEST(GateLateTest, WhatBeganLateAndSavesStays) {
  Server server;
  server.run({}, kHour);
  EXPECT_EQ(server.switches, 1);
  EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  EXPECT_GT(server.gate.kept().placed.rounds, 0u);
}

}  // namespace
}  // namespace llamalloc
