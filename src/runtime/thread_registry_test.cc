// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_registry.h"

#include <gtest/gtest.h>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

// A thread may sleep through any number of calls; the next time it looks it must find one.
TEST(ThreadRegistry, CallsDoNotAddUpWhileAThreadSleeps) {
  FakePages system;
  MetadataArena arena(system);
  ThreadRegistry registry;
  ThreadCache* cache = registry.adopt(arena);
  cache->countdown = 1000;
  for (int second = 0; second < 100; ++second) {
    registry.request_housekeeping();
    ASSERT_LT(cache->countdown.load(), 0) << second;
  }
  EXPECT_EQ(cache->countdown.load() + kCallIn, 1000);
  EXPECT_TRUE(cache->housekeeping_due.load());
}

}  // namespace
}  // namespace llamalloc
