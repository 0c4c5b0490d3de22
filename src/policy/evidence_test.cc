// SPDX-License-Identifier: Apache-2.0
#include "policy/evidence.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

Evidence deaths(LifetimeClass c, uint16_t count) {
  Evidence evidence;
  evidence.deaths[static_cast<int>(c)] = count;
  return evidence;
}
Evidence alive(LifetimeClass c, uint16_t count, uint16_t elders) {
  Evidence evidence;
  evidence.young[static_cast<int>(c)] = count;
  evidence.elders = elders;
  return evidence;
}
Evidence both(Evidence a, const Evidence& b) {
  a.add(b);
  return a;
}

TEST(EvidenceTest, FewSamplesDecideNothing) {
  EXPECT_FALSE(verdict_of({}).decided);
  EXPECT_FALSE(verdict_of(deaths(LifetimeClass::le_10ms, kEnoughShort - 1)).decided);
}

TEST(EvidenceTest, AllDiedYoung) {
  const Verdict verdict = verdict_of(deaths(LifetimeClass::le_100ms, kEnoughShort));
  EXPECT_TRUE(verdict.decided);
  EXPECT_EQ(verdict.lifetime, LifetimeClass::le_100ms);
}

TEST(EvidenceTest, OneOutliverLengthens) {
  const Verdict verdict =
      verdict_of(both(deaths(LifetimeClass::le_10ms, 5000), deaths(LifetimeClass::le_10s, 1)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::le_10s);
}

TEST(EvidenceTest, OneInTwentyThousandIsWithinTheTail) {
  const Verdict verdict =
      verdict_of(both(deaths(LifetimeClass::le_10ms, 20000), deaths(LifetimeClass::le_10s, 1)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::le_10ms);
}

TEST(EvidenceTest, FewThatStayAreEnoughForLong) {
  const Verdict verdict = verdict_of(alive(LifetimeClass::le_10s, kEnoughLong, kEnoughLong));
  EXPECT_TRUE(verdict.decided);
  EXPECT_EQ(verdict.lifetime, LifetimeClass::never);
}

TEST(EvidenceTest, YoungOnesInFlightDoNotCountAsStaying) {
  const Verdict verdict =
      verdict_of(both(deaths(LifetimeClass::le_10ms, 90), alive(LifetimeClass::le_10ms, 10, 0)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::le_10ms);
}

TEST(EvidenceTest, MostDieAndSomeStay) {
  const Verdict verdict = verdict_of(
      both(deaths(LifetimeClass::le_10ms, 900), alive(LifetimeClass::le_1000s, 100, 100)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::mixed);
}

TEST(EvidenceTest, CountsHalveBeforeTheyOverflow) {
  Evidence evidence = deaths(LifetimeClass::le_1s, 60000);
  evidence.add(deaths(LifetimeClass::le_1s, 10000));
  EXPECT_EQ(evidence.deaths[static_cast<int>(LifetimeClass::le_1s)], 35000);
  evidence.take_away(deaths(LifetimeClass::le_1s, 50000));
  EXPECT_EQ(evidence.samples(), 0u);
}

}  // namespace
}  // namespace llamalloc
