// SPDX-License-Identifier: Apache-2.0
// Contexts of many samples, and many contexts: counts are divided so that they fit, and tables
// fill.
#include <vector>

#include "learning/test_learner.h"

namespace llamalloc {
namespace {

using LearnerCountsTest = LearnerTest;

// Counts that do not fit are divided alike, so that a rare long life stays rare.
TEST_F(LearnerCountsTest, ManySamplesKeepTheirShares) {
  for (int i = 0; i < 3; ++i) {
    void* p = born({1});
    pass(Nanos::seconds(5));
    dies(p);
  }
  die_at_once({1}, 200000);
  round();
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10ms);
}

TEST_F(LearnerCountsTest, ManySamplesKeepTheirShareOfAll) {
  die_at_once({1}, 270000);
  for (int i = 0; i < 30000; ++i) {
    void* p = born({2});
    if (i % 1000 == 0) pass(Nanos::seconds(30));
    dies(p);
  }
  round();
  EXPECT_NEAR(learner_.shares().short_lived, 0.9, 0.01);
}

// Of many alive, too.
TEST_F(LearnerCountsTest, ManyAliveKeepTheirShareOfThoseThatDied) {
  for (const int times : {1, 10}) {
    const uintptr_t site = 100 + static_cast<uintptr_t>(times);
    stay({site}, 30'000 * times);
    die_at_once({site}, 20'000 * times);
  }
  die_at_once({2}, 50'000);
  pass(Nanos::seconds(500));
  round();
  EXPECT_EQ(ask({101}).lifetime, LifetimeClass::never);
  EXPECT_EQ(ask({110}).lifetime, LifetimeClass::never);
  EXPECT_NEAR(node_of({110}).now.young[5] / 1.5, node_of({110}).now.deaths[0], 1);
  EXPECT_EQ(node_of({110}).now.elders, node_of({110}).now.young[5]);
  EXPECT_NEAR(learner_.shares().short_lived, 1 / 12.0, 0.001);
}

// Whichever of them keeps some: no context counts more for being the last one.
TEST_F(LearnerCountsTest, CallersWithoutNumberCountAlike) {
  constexpr uintptr_t kCallers = 16;
  for (uintptr_t caller = 0; caller < kCallers; ++caller) die_at_once({1, 10 + caller}, 60'000);
  die_at_once({2, 10}, 60'000);
  for (uintptr_t caller = 1; caller < kCallers; ++caller) die_at_once({2, 10 + caller}, 60'000);
  rounds(2);
  ASSERT_EQ(ask({1, 10}).lifetime, LifetimeClass::le_10ms);
  stay({1, 10}, 5'000);
  stay({2, 10 + kCallers - 1}, 5'000);
  pass(Nanos::seconds(50));
  round();
  for (const uintptr_t site : {1, 2}) {
    const Evidence& all = node_of({site}).now;
    EXPECT_NEAR(all.deaths[0], 192.0 * all.young[4], 0.01 * all.deaths[0]) << site;
    const uintptr_t keeps = site == 1 ? 10 : 10 + kCallers - 1;
    EXPECT_NE(ask({site, keeps}).lifetime, LifetimeClass::le_10ms) << site;
  }
}

// A context whose counts were divided to fit, beside one whose counts were not.
TEST_F(LearnerCountsTest, AFewOfOneCallerAreFewBesideManyOfAnother) {
  die_at_once({1, 10}, 40);
  stay({1, 10}, 20);
  pass(Nanos::seconds(5));
  die_at_once({1, 11}, 400'000);
  round();
  EXPECT_EQ(ask({1, 11}).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask({1, 11}).level, 1) << "20 of 400,000 are within the tail";
}

// Each keeps too few to be seen beside so many; together they keep more than the tail.
TEST_F(LearnerCountsTest, ALittleOfManyCallersIsNotRoundedAway) {
  die_at_once({1, 10}, 1'000'000);
  for (uintptr_t caller = 11; caller < 511; ++caller) stay({1, caller}, 4);
  pass(Nanos::seconds(50));
  round();
  const Evidence& all = node_of({1}).now;
  EXPECT_NEAR(all.young[4] / 2'000.0, all.deaths[0] / 1'000'000.0, 0.001);
  EXPECT_EQ(all.elders, all.young[4]);
  EXPECT_NE(ask({1, 11}).lifetime, LifetimeClass::le_10ms);
}

TEST_F(LearnerCountsTest, AWholeSpeaksForItsPartsWhereTheTableIsFull) {
  Evidence one;
  one.deaths[0] = 1;
  for (uint32_t i = 0; i < Learner::kMostNodes - 3; ++i)
    ASSERT_TRUE(learner_.take_in(mix(0x1234, i), 3, false, one));
  die_at_once({1, 10, 3}, 100);
  stay({1, 11, 3}, 100);
  pass(Nanos::seconds(600));
  round();
  ASSERT_EQ(learner_.size(), Learner::kMostNodes);
  EXPECT_NE(ask({1, 11, 3}).lifetime, LifetimeClass::le_10ms) << "there was no room for this one";
  EXPECT_TRUE(learner_.is_consistent());
}

}  // namespace
}  // namespace llamalloc
