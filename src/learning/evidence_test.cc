// SPDX-License-Identifier: Apache-2.0
#include "learning/evidence.h"

#include <gtest/gtest.h>

#include "predict/test_golden.h"

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

TEST(EvidenceTest, NothingIsSaidOfYoungOnesBeforeAnyDies) {
  EXPECT_FALSE(verdict_of(alive(LifetimeClass::le_3s, 1000, 0)).decided);
}

// A context of which the longest life is 3 s has objects a little older than that now and then.
TEST(EvidenceTest, TheOldestInFlightDoNotCountAsStaying) {
  const Verdict verdict =
      verdict_of(both(deaths(LifetimeClass::le_3s, 1000), alive(LifetimeClass::le_10s, 10, 10)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::le_10s);
}

TEST(EvidenceTest, MostDieAndSomeStay) {
  const Verdict verdict = verdict_of(
      both(deaths(LifetimeClass::le_10ms, 900), alive(LifetimeClass::le_1000s, 100, 100)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::mixed);
}

// In another run the machine was so busy that all took ten times longer: its wave is alive still,
// two classes above the longest life of earlier waves.
TEST(EvidenceTest, AWaveThatIsSlowerThanEarlierOnesDoesNotStay) {
  const Verdict verdict = verdict_of(
      both(deaths(LifetimeClass::le_3s, 2000), alive(LifetimeClass::le_100s, 2100, 2100)));
  EXPECT_TRUE(verdict.decided);
  EXPECT_NE(group_of(verdict.lifetime), PageGroup::permanent);
}

TEST(EvidenceTest, NearlyAllStayAndSomeDieEarly) {
  const Verdict verdict =
      verdict_of(both(deaths(LifetimeClass::le_3s, 5), alive(LifetimeClass::le_100s, 2100, 2100)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::never);
}

TEST(EvidenceTest, MostStayLongAfterTheOthersDied) {
  const Verdict verdict = verdict_of(
      both(deaths(LifetimeClass::le_3s, 2000), alive(LifetimeClass::le_1000s, 2100, 2100)));
  EXPECT_EQ(verdict.lifetime, LifetimeClass::never);
}

// Else what a server stores would be in flight for ever once a few of it died after minutes.
TEST(EvidenceTest, WhatNearlyAllOutlivesTheLastBoundIsNotInFlight) {
  const auto old = alive(LifetimeClass::gt_1000s, 999, 999);
  for (const LifetimeClass longest : {LifetimeClass::le_1000s, LifetimeClass::gt_1000s}) {
    const Verdict verdict = verdict_of(both(deaths(longest, 1), old));
    EXPECT_TRUE(verdict.decided);
    EXPECT_EQ(verdict.lifetime, LifetimeClass::gt_1000s);
  }
  const Verdict many = verdict_of(both(deaths(LifetimeClass::gt_1000s, 300), old));
  EXPECT_EQ(many.lifetime, LifetimeClass::gt_1000s);
  EXPECT_FALSE(verdict_of(both(deaths(LifetimeClass::le_1000s, 100), old)).decided)
      << "a tenth may be of the kind that dies after minutes";
  const auto one = alive(LifetimeClass::gt_1000s, kEnoughLong - 1, kEnoughLong - 1);
  EXPECT_FALSE(verdict_of(both(deaths(LifetimeClass::le_1000s, 1), one)).decided);
}

TEST(EvidenceTest, WhatNearlyAllOutlivedLivesLongHoweverFew) {
  const auto long_dead = deaths(LifetimeClass::le_100s, 1), soon = deaths(LifetimeClass::le_10s, 1);
  const auto alive_long = alive(LifetimeClass::le_100s, 1, 0);
  EXPECT_FALSE(lives_long({}));
  EXPECT_FALSE(lives_long(long_dead)) << "one is chance";
  EXPECT_TRUE(lives_long(both(long_dead, alive_long)));
  EXPECT_FALSE(lives_long(both(both(long_dead, alive_long), soon)));
  EXPECT_FALSE(lives_long(alive(LifetimeClass::le_10s, 5, 5))) << "not yet";
  const auto many = deaths(LifetimeClass::le_1000s, 20);
  EXPECT_TRUE(lives_long(both(many, soon)));
}

TEST(EvidenceTest, CountsHalveBeforeTheyOverflow) {
  Evidence evidence = deaths(LifetimeClass::le_3s, 60000);
  evidence.add(deaths(LifetimeClass::le_3s, 10000));
  EXPECT_EQ(evidence.deaths[static_cast<int>(LifetimeClass::le_3s)], 35000);
  evidence.take_away(deaths(LifetimeClass::le_3s, 50000));
  EXPECT_EQ(evidence.samples(), 0u);
}

void read_counts(GoldenReader& golden, const char* name, uint16_t (&counts)[kTimedClasses]) {
  golden.key(name);
  const auto values = golden.list([&] { return golden.integer(); });
  ASSERT_EQ(values.size(), size_t{kTimedClasses});
  for (int c = 0; c < kTimedClasses; ++c) counts[c] = static_cast<uint16_t>(values[c]);
  golden.expect(',');
}

// The twin's verdicts (python/llamalloc/learning/evidence.py).
TEST(EvidenceTest, DecidesAsTheTwinDoes) {
  GoldenReader golden("evidence.json");
  golden.expect('{');
  golden.key("cases");
  const auto cases = golden.list([&] {
    Evidence evidence;
    golden.expect('{');
    read_counts(golden, "deaths", evidence.deaths);
    read_counts(golden, "young", evidence.young);
    golden.key("elders");
    evidence.elders = static_cast<uint16_t>(golden.integer());
    golden.expect(',');
    golden.key("verdict");
    const std::string expected = golden.string();
    golden.expect('}');
    const Verdict verdict = verdict_of(evidence);
    EXPECT_EQ(verdict.decided ? row(verdict.lifetime).name : "", expected);
    return verdict.decided;
  });
  EXPECT_GT(cases.size(), 200u);
}

}  // namespace
}  // namespace llamalloc
