// SPDX-License-Identifier: Apache-2.0
#include "generator/due_wheel.h"

#include <gtest/gtest.h>

#include <map>

#include "generator/random.h"

namespace llamalloc::generator {
namespace {

constexpr uint64_t kTick = 10;

// Takes what is due next, or advances up to `until`; false: nothing was due before.
bool take(DueWheel& wheel, uint64_t until, Due* out) {
  while (!wheel.has_due_now()) {
    if (wheel.tick_end() > until) return false;
    wheel.advance();
  }
  *out = wheel.take_first();
  return true;
}

TEST(DueWheel, GivesBackInOrderWhatIsAddedNearAndFar) {
  DueWheel wheel(kTick);
  std::multimap<uint64_t, uint64_t> expected;
  Random random(5);
  for (uint64_t object = 0; object < 2000; ++object) {
    const uint64_t reach = object % 3 == 0 ? 50 : object % 3 == 1 ? 30'000 : 2'000'000;
    const Due due{random.next() % reach, object, object % 7, 0, object * 3};
    wheel.add(due);
    expected.emplace(due.time, object);
  }
  Due due{};
  for (auto next = expected.begin(); next != expected.end(); ++next) {
    ASSERT_TRUE(take(wheel, 2'100'000, &due));
    EXPECT_EQ(due.time, next->first);
    EXPECT_EQ(due.size, due.object * 3);
    EXPECT_EQ(due.thread, due.object % 7);
  }
  EXPECT_FALSE(take(wheel, 2'100'000, &due));
}

TEST(DueWheel, TakesMoreWhileItTurns) {
  DueWheel wheel(kTick);
  wheel.add({5, 0, 0, 0, 0});
  Random random(6);
  uint64_t time = 0, taken = 0;
  for (Due due{}; taken < 5000 && take(wheel, 1'000'000'000, &due); ++taken) {
    EXPECT_GE(due.time, time);
    time = due.time;
    wheel.add({time + random.next() % 100'000, taken + 1, 0, 0, 0});
  }
  EXPECT_EQ(taken, 5000u);
}

TEST(DueWheel, ForgetsWhatLiesBeyondItsReach) {
  DueWheel wheel(1);
  wheel.add({DueWheel::kSlots * DueWheel::kSlots, 1, 0, 0, 0});
  Due due{};
  EXPECT_FALSE(take(wheel, DueWheel::kSlots * DueWheel::kSlots + 10, &due));
}

}  // namespace
}  // namespace llamalloc::generator
