// SPDX-License-Identifier: Apache-2.0
#include "learning/gate_merge.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

constexpr GateWaste kSeen{.rounds = 2, .high = 60, .low = 200, .depth = 400, .ratio = 1500};

GateKept kept(GateVerdict verdict, GateWaste blind = kSeen, GateWaste placed = {}) {
  return {.verdict = verdict, .reversals = 0, .blind = blind, .placed = placed};
}

TEST(GateMergeTest, WhoMeasuredNothingUndoesNothing) {
  const GateKept base;
  const GateKept trial = kept(GateVerdict::on_trial);
  EXPECT_EQ(merge_gates(base, base, trial), trial);
  EXPECT_EQ(merge_gates(base, trial, base), trial);
}

TEST(GateMergeTest, AgedOrGivenUpByOneIsKept) {
  const GateKept base = kept(GateVerdict::helps);
  GateKept given_up = kept(GateVerdict::fails);
  given_up.reversals = 1;
  EXPECT_EQ(merge_gates(base, given_up, base), given_up);
  EXPECT_EQ(merge_gates(base, base, given_up), given_up);
}

TEST(GateMergeTest, TheMoreCarefulVerdictHolds) {
  const GateKept base = kept(GateVerdict::on_trial);
  const GateKept helps = kept(GateVerdict::helps), fails = kept(GateVerdict::fails);
  EXPECT_EQ(merge_gates(base, helps, fails).verdict, GateVerdict::fails);
  EXPECT_EQ(merge_gates(base, fails, helps).verdict, GateVerdict::fails);
}

// They say nothing of what another process measured.
TEST(GateMergeTest, FailedPredictionsAreNoMeasurement) {
  const GateKept base = kept(GateVerdict::on_trial), mistaken = kept(GateVerdict::mistaken);
  for (const GateVerdict measured : {GateVerdict::helps, GateVerdict::fails}) {
    EXPECT_EQ(merge_gates(base, mistaken, kept(measured)).verdict, measured);
    EXPECT_EQ(merge_gates(base, kept(measured), mistaken).verdict, measured);
  }
  EXPECT_EQ(merge_gates(base, mistaken, base), mistaken);
  const GateKept helps = kept(GateVerdict::helps);
  GateWaste more = kSeen;
  ++more.rounds;
  GateKept again = helps;
  again.placed = more;
  EXPECT_EQ(merge_gates(helps, mistaken, again).verdict, GateVerdict::helps) << "measured again";
  EXPECT_EQ(merge_gates(helps, again, mistaken).verdict, GateVerdict::helps);
  const GateKept untried = kept(GateVerdict::untried);
  EXPECT_EQ(merge_gates(untried, mistaken, base).verdict, GateVerdict::mistaken);
  EXPECT_EQ(merge_gates(untried, base, mistaken).verdict, GateVerdict::mistaken);
}

TEST(GateMergeTest, MeansAreWeightedByTheRoundsOfEach) {
  GateWaste mine = kSeen, theirs = kSeen;
  mine.rounds += 3;
  mine.low = 100;
  theirs.rounds += 1;
  theirs.low = 300;
  theirs.high = kNoFigure;
  const GateKept merged =
      merge_gates(kept(GateVerdict::on_trial), kept(GateVerdict::on_trial, mine),
                  kept(GateVerdict::on_trial, theirs));
  EXPECT_EQ(merged.blind.rounds, 6u);
  EXPECT_EQ(merged.blind.low, 150u);
  EXPECT_EQ(merged.blind.high, 60u);
}

// The armed gate's estimate of what placement leaves pinned (learned_state.md, placed).
TEST(GateMergeTest, AnEstimateIsKeptUntilSomethingIsMeasured) {
  const GateKept base = kept(GateVerdict::untried);
  const GateKept armed = kept(GateVerdict::on_trial, kSeen, {.low = 40});
  EXPECT_EQ(merge_gates(base, armed, base), armed);
  EXPECT_EQ(merge_gates(base, base, armed), armed);
  const GateKept helps = kept(GateVerdict::helps, kSeen, kSeen);
  EXPECT_EQ(merge_gates(armed, helps, armed), helps);
  EXPECT_EQ(merge_gates(armed, armed, helps), helps);
  EXPECT_EQ(merge_gates(base, armed, helps), helps);
  EXPECT_EQ(merge_gates(base, helps, armed), helps);
}

// One file serves large and small instances: as in one process, small loads are not compared.
TEST(GateMergeTest, WhatWasMeasuredUnderAMuchLowerLoadIsNotMixedIn) {
  GateKept small = kept(GateVerdict::on_trial), large = kept(GateVerdict::untried);
  small.peak = 100;
  small.blind.low = 700;
  large.peak = 2000;
  large.blind.low = 100;
  EXPECT_EQ(merge_gates({}, small, large), large);
  EXPECT_EQ(merge_gates({}, large, small), large);
  EXPECT_EQ(merge_gates(small, small, large), large);
  EXPECT_EQ(merge_gates(small, large, small), large);
  large.peak = 130;
  EXPECT_EQ(merge_gates({}, small, large).blind.low, 400u);
}

TEST(GateMergeTest, WhatOneForgotIsForgottenUnlessAnotherStillMeasuresIt) {
  GateKept base = kept(GateVerdict::on_trial), anew = base, none;
  base.peak = 10240;
  anew.peak = 5120;
  anew.blind = {.rounds = 1, .high = 10, .low = 20, .depth = 30, .ratio = 1100};
  GateKept measured = base;
  ++measured.blind.rounds;
  GateKept helps = measured;
  helps.verdict = GateVerdict::helps;
  for (const GateKept& forgotten : {anew, none}) {
    EXPECT_EQ(merge_gates(base, forgotten, base), forgotten);
    EXPECT_EQ(merge_gates(base, base, forgotten), forgotten);
    for (const GateKept& other : {measured, helps}) {
      EXPECT_EQ(merge_gates(base, forgotten, other), other);
      EXPECT_EQ(merge_gates(base, other, forgotten), other);
    }
  }
}

// What both measured was written; then the other one ended, and the load did not come back.
TEST(GateMergeTest, WhatWasWrittenWithOthersIsForgottenToo) {
  GateKept own = kept(GateVerdict::on_trial), written = own, anew = own;
  own.peak = 10240;
  written.peak = 10300;
  written.blind.rounds += 3;
  anew.peak = 5120;
  EXPECT_EQ(merge_gates({own, written}, anew, written), anew);
  GateKept others = written;
  ++others.blind.rounds;
  EXPECT_EQ(merge_gates({own, written}, anew, others), others) << "one still measures it";
}

TEST(GateMergeTest, WhatOthersMeasuredBeforeStaysInTheMeans) {
  GateKept own = kept(GateVerdict::on_trial), written = own, mine = own;
  written.blind = {.rounds = 4, .high = 60, .low = 300, .depth = 400, .ratio = 1500};
  mine.blind.rounds += 1;
  mine.blind.low = 100;
  const GateKept merged = merge_gates({own, written}, mine, written);
  EXPECT_EQ(merged.blind.rounds, 5u);
  EXPECT_EQ(merged.blind.low, 200u);
  EXPECT_EQ(merge_gates({own, written}, own, written), written);
}

TEST(GateMergeTest, WhatIsMergedIsValid) {
  const GateVerdict all[] = {GateVerdict::untried, GateVerdict::on_trial, GateVerdict::helps,
                             GateVerdict::fails, GateVerdict::mistaken};
  for (const GateVerdict a : all)
    for (const GateVerdict b : all)
      for (const GateVerdict c : all)
        EXPECT_TRUE(merge_gates(kept(a), kept(b), kept(c)).is_valid());
  EXPECT_TRUE(merge_gates({}, kept(GateVerdict::fails), {}).is_valid());
}

}  // namespace
}  // namespace llamalloc
