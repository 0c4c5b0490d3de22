// SPDX-License-Identifier: Apache-2.0
// Contexts of many samples, and many contexts: counts are divided so that they fit, and tables
// fill.
#include <vector>

#include "policy/test_learner.h"

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

}  // namespace
}  // namespace llamalloc
