// SPDX-License-Identifier: Apache-2.0
// The gate's record as text, in profiles and model files.
#include <gtest/gtest.h>

#include "policy/test_gate.h"

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

}  // namespace
}  // namespace llamalloc
