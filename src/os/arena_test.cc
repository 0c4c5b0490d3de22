// SPDX-License-Identifier: Apache-2.0
#include "os/arena.h"

#include <gtest/gtest.h>

#include <cstring>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

TEST(Arena, CountsWhatWasTouched) {
  FakePages pages;
  MetadataArena arena(pages);
  constexpr size_t kLarge = 4 << 20;
  auto* large = static_cast<char*>(arena.allocate(kLarge));
  ASSERT_NE(large, nullptr);
  EXPECT_LT(arena.resident_bytes(), kLarge / 4);
  memset(large, 1, kLarge / 2);
  EXPECT_GE(arena.resident_bytes(), kLarge / 2);
  EXPECT_LT(arena.resident_bytes(), kLarge);
}

// The system takes its time to tell what is resident.
TEST(Arena, OthersGetMemoryWhileItAsksTheSystem) {
  FakePages pages;
  MetadataArena arena(pages);
  ASSERT_NE(arena.allocate(1 << 20), nullptr);
  static bool was_free;
  was_free = true;
  pages.on_release_argument = &arena.lock();
  pages.on_resident = [](void* argument) {
    Lock& lock = *static_cast<Lock*>(argument);
    if (lock.try_lock())
      lock.unlock();
    else
      was_free = false;
  };
  arena.resident_bytes();
  EXPECT_TRUE(was_free);
}

// Else a process that is out of memory, and asks again and again, would seem to back more and more.
TEST(Arena, CountsNothingThatItCouldNotGive) {
  FakePages pages;
  MetadataArena arena(pages);
  pages.calls_left = 0;
  EXPECT_EQ(arena.allocate(64), nullptr);
  EXPECT_EQ(arena.allocate(1 << 20), nullptr);
  EXPECT_EQ(arena.used_bytes(), 0u);
  pages.calls_left = INT64_MAX;
  EXPECT_NE(arena.allocate(64), nullptr);
  EXPECT_EQ(arena.used_bytes(), 64u);
}

}  // namespace
}  // namespace llamalloc
