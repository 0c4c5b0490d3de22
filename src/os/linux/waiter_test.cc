// SPDX-License-Identifier: Apache-2.0
#include "os/waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace llamalloc {
namespace {

constexpr Nanos kForEver = Nanos::seconds(3600);

TEST(Waiter, ACallWhileAwakeIsNotLost) {
  Waiter waiter;
  waiter.wake();
  waiter.wake();
  waiter.wait(kForEver);          // at once
  waiter.wait(Nanos::millis(1));  // both calls were one
}

TEST(Waiter, EveryCallIsFollowedByALook) {
  Waiter waiter;
  std::atomic<int> posted{0};
  std::atomic<int> seen{0};
  std::thread worker([&] {
    while (seen < 20000) {
      waiter.wait(kForEver);
      seen.store(posted.load());
    }
  });
  for (int i = 1; i <= 20000; ++i) {
    posted = i;
    waiter.wake();
    if (i % 64 == 0)
      while (seen < i) std::this_thread::yield();
  }
  worker.join();
  EXPECT_EQ(seen, 20000);
}

}  // namespace
}  // namespace llamalloc
