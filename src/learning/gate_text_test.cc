// SPDX-License-Identifier: Apache-2.0
// The gate's record as text, in profiles and model files; and the sentence on what it decided.
#include <gtest/gtest.h>

#include <string>

#include "learning/test_gate.h"

namespace llamalloc {
namespace {

TEST(GateTextTest, AsTextItIsTheSame) {
  char text[GateKept::kText];
  GateKept most = kept(GateVerdict::helps, Gate::kMostReversals);
  most.peak = UINT16_MAX;
  most.blind.high = kNoFigure;
  for (const GateKept& one :
       {GateKept{}, kept(GateVerdict::on_trial), kept(GateVerdict::mistaken, 1), most}) {
    one.write(text, sizeof(text));
    EXPECT_EQ(GateKept::read(text), one) << text;
  }
}

TEST(GateTextTest, TextThatIsNoRecordCountsAsNothing) {
  EXPECT_EQ(GateKept::read("1,0,500,3,50,350,420,1650,0,0,0,0,0").verdict, GateVerdict::on_trial);
  for (const char* bad :
       {"", "1", "1,0,500,3,50,350,420,1650,0,0,0,0", "1,0,500,3,50,350,420,1650,0,0,0,0,0,",
        "1,0,500,3,50,350,420,1650,0,0,0,0,0,0", "1,,500,3,50,350,420,1650,0,0,0,0,0",
        "-1,0,500,3,50,350,420,1650,0,0,0,0,0", "5,0,500,3,50,350,420,1650,0,0,0,0,0",
        "1,6,500,3,50,350,420,1650,0,0,0,0,0", "1,0,65536,3,50,350,420,1650,0,0,0,0,0",
        "1,0,500,0,50,350,420,1650,0,0,0,0,0", "1,0,500,3,50,99999999999,420,1650,0,0,0,0,0",
        "1,0,500,3,50,4294967296,420,1650,0,0,0,0,0"})
    EXPECT_EQ(GateKept::read(bad), GateKept{}) << bad;
}

// ----- What it saves: in each state, and whether that is measured or an estimate -----

// By default troughs pin 90 % of 1,024 MiB, of which 0.95 x 0.9 would go.
constexpr int kForetold = 788;

void expect_says(const Server& server, const std::string& part) {
  EXPECT_NE(server.sentence().find(part), std::string::npos) << server.sentence();
}
void expect_not_known(const Server& server) {
  EXPECT_TRUE(server.sentence().ends_with("; what it saves is not known")) << server.sentence();
}
// how: "would save", "saves" or "costs" so many MiB, within a hundredth of the peak.
void expect_saving(const Server& server, const std::string& how, int mib) {
  const std::string said = server.sentence(), begin = "; it " + how + " ";
  const size_t at = said.rfind(begin);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_NEAR(std::stoi(said.substr(at + begin.size())), mib, 10) << said;
  EXPECT_TRUE(said.ends_with(" MiB")) << said;
}

TEST(GateTextTest, WithoutATroughNothingTellsWhatItSaves) {
  Server server;
  server.run(steady(), 60);
  expect_says(server, "off: no trough of the load was seen");
  expect_not_known(server);
}

TEST(GateTextTest, ArmedItSaysWhatTheTroughForetells) {
  Server server;
  server.run({}, 15);
  expect_saving(server, "would save", kForetold);
  expect_says(server, "off until the next start");
  expect_says(server, "; troughs would pin 13 % of the peak, 90 % without it; ");
  server.run({.low = 0}, 60);
  expect_saving(server, "would save", kForetold);
}

TEST(GateTextTest, ArmedAnewItSaysWhatWasMeasured) {
  Server server(kept(GateVerdict::fails, 1));
  for (int i = 0; i < 100 && server.gate.kept().verdict == GateVerdict::fails; ++i)
    server.run({}, 20);
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::on_trial);
  ASSERT_FALSE(server.gate.is_on());
  expect_says(server, "; troughs pin 10 % of the peak, 9");
  expect_saving(server, "saves", 825);
}

TEST(GateTextTest, LateItSaysWhatTheTroughForetells) {
  Server server;
  server.run({}, 30);
  server.run({.high = 0}, 4);
  ASSERT_TRUE(server.gate.is_late());
  expect_saving(server, "would save", kForetold);
}

TEST(GateTextTest, OnTrialItSaysWhatWasForetoldAndWhatHighLoadShows) {
  Server server = next_run({});
  expect_says(server, "on trial; troughs would pin 13 % of the peak, 90 % without it; it would");
  expect_saving(server, "would save", kForetold);
  server.run({.low = 0, .placed = {0.085, 0.1}}, 4);
  expect_says(server, "on trial; high load so far pins 8 % of the peak, ");
  expect_saving(server, "would save", kForetold);
}

TEST(GateTextTest, OfARecordThatLacksAFigureNothingIsSaid) {
  GateKept proof = kept(GateVerdict::on_trial);
  proof.peak = 1000;
  expect_saving(Server(proof), "saves", 800);
  proof.placed = {};
  expect_not_known(Server(proof));
}

TEST(GateTextTest, OnItSaysWhatWasMeasured) {
  Server server = next_run({});
  server.run({}, 40);
  expect_says(server, "on; troughs pin 10 % of the peak, 90 % without it; it saves ");
  expect_saving(server, "saves", 819);
}

TEST(GateTextTest, OffWhileTheLoadIsLowItSaysWhatItSavesWhenThatIsHigher) {
  Server server = next_run({});
  server.run({}, 40);
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  server.run({.peak = 20 * kMiB}, kHour);
  ASSERT_FALSE(server.gate.is_on());
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  expect_says(server, "off until the load is higher; ");
  expect_saving(server, "saves", 852);
}

TEST(GateTextTest, AfterATrialThatFailedItSaysWhatWasMeasured) {
  for (const double low : {0.9, 1.2}) {
    Server server = next_run({});
    server.run({.placed = {0.125, low}}, 15);
    ASSERT_EQ(server.gate.kept().verdict, GateVerdict::fails);
    expect_says(server,
                "given up 1 times, as it did not pay; high load pins 12 % of the peak, 4 % ");
    expect_says(server, "without it; troughs pin ");
    expect_saving(server, low > 1 ? "costs" : "saves only", low > 1 ? 307 : 0);
  }
}

TEST(GateTextTest, AfterATrialThatEndedBeforeItsTroughNothingTells) {
  Server server = next_run({});
  server.run({.low = 0, .placed = {0.2, 0.1}}, 7);
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::fails);
  expect_says(server, "as it did not pay");
  expect_not_known(server);
}

TEST(GateTextTest, WherePredictionsFailItSaysWhatWasMeasuredBefore) {
  const GateFigures wrong{2048 * kMiB, 1024 * kMiB, 0.95, 0.9, 0.9, 0};
  Server tried = next_run({}), first = tried;
  tried.run({}, 40);
  tried.feed(wrong);
  expect_saving(tried, "saves", 819);
  first.feed(wrong);
  expect_says(first, "predictions do not hold");
  expect_not_known(first);
  first.feed({});
  expect_says(first, "as predictions failed");
  expect_not_known(first);
}

// The estimate goes with the kept state: the next run, and a report of the file, know it.
TEST(GateTextTest, WhatTheTroughForetellsIsKeptAndNoMeasurement) {
  Server server;
  server.run({}, 15);
  const GateKept kept = server.gate.kept();
  EXPECT_EQ(kept.placed.rounds, 0u);
  EXPECT_NEAR(kept.placed.low, 900 * (1 - 0.95 * 0.9), 3);
  char text[GateKept::kText];
  kept.write(text, sizeof(text));
  EXPECT_EQ(GateKept::read(text), kept);
}

TEST(GateTextTest, NothingIsCutOff) {
  GateKept most = kept(GateVerdict::helps, Gate::kMostReversals);
  most.peak = UINT16_MAX;
  most.blind = most.placed = {1 << 20, 1000000, 1000000, 1000000, 1000000};
  for (int verdict = 0; verdict < kGateVerdicts; ++verdict)
    for (const uint32_t rounds : {0u, 1u}) {
      most.verdict = static_cast<GateVerdict>(verdict);
      most.placed.rounds = rounds;
      Server server(most);
      EXPECT_LT(server.sentence().size(), Gate::kSentence - 1);
      for (const size_t live : {~size_t{0}, size_t{1}, size_t{1}, size_t{1}}) {
        server.feed({~size_t{0}, live, 1, 1});
        EXPECT_LT(server.sentence().size(), Gate::kSentence - 1) << server.sentence();
      }
      server.feed({~size_t{0}, 1, 1, 1, 1e6, 1e6});
      EXPECT_LT(server.sentence().size(), Gate::kSentence - 1) << server.sentence();
    }
}

}  // namespace
}  // namespace llamalloc
