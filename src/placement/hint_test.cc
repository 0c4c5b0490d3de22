// SPDX-License-Identifier: Apache-2.0
#include "placement/hint.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

Placement::Choice choice_of(LifetimeClass lifetime, bool known) {
  Placement::Choice choice;
  choice.lifetime = lifetime;
  choice.group = group_of(lifetime);
  choice.known = known;
  return choice;
}

TEST(Hint, ColdIsLongLivedWhereNothingIsKnown) {
  EXPECT_EQ(group_with_hint({}, 0), group_of(LifetimeClass::never));
  EXPECT_EQ(group_with_hint({}, 127), group_of(LifetimeClass::never));
}

TEST(Hint, HotSaysNothing) {
  EXPECT_EQ(group_with_hint({}, 128), PageGroup::unknown);
  EXPECT_EQ(group_with_hint({}, 255), PageGroup::unknown);
}

TEST(Hint, PredictionAndPriorWin) {
  for (const bool known : {true, false}) {
    const Placement::Choice brief = choice_of(LifetimeClass::le_10ms, known);
    EXPECT_EQ(group_with_hint(brief, 0), brief.group);
  }
  const Placement::Choice mixed = choice_of(LifetimeClass::mixed, true);
  EXPECT_EQ(group_with_hint(mixed, 0), mixed.group);
}

}  // namespace
}  // namespace llamalloc
