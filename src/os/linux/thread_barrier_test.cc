// SPDX-License-Identifier: Apache-2.0
#include "os/thread_barrier.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace llamalloc {
namespace {

TEST(ThreadBarrier, WorksInThisProcessAndInAChild) {
  if (!has_thread_barrier()) GTEST_SKIP() << "no membarrier here";
  EXPECT_TRUE(issue_thread_barrier());
  prepare_thread_barrier();
  EXPECT_TRUE(issue_thread_barrier()) << "once more does no harm";
  const pid_t child = fork();
  if (child == 0) _exit(issue_thread_barrier() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The claim of a cache in small: the owner raises its flag and enters only if it is let; the other
// shuts the door and goes in only if the flag is down. Both have nothing but plain stores and
// loads.
TEST(ThreadBarrier, OrdersTheOthersStoreBeforeTheirLoad) {
  if (!has_thread_barrier()) GTEST_SKIP() << "no membarrier here";
  std::atomic<bool> flag{false}, shut{false}, stop{false};
  std::atomic<int> inside{0};
  std::atomic<long> entered{0};
  std::thread owner([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      flag.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!shut.load(std::memory_order_relaxed)) {
        inside.store(1, std::memory_order_relaxed);
        entered.fetch_add(1, std::memory_order_relaxed);
        inside.store(0, std::memory_order_relaxed);
      }
      flag.store(false, std::memory_order_release);
    }
  });
  int taken = 0;
  // On a busy machine the owner may be stopped with its flag up, for as long as it takes.
  const auto go_on = [&](int i) {
    return i < 20000 || ((entered == 0 || taken == 0) && i < 1 << 24);
  };
  for (int i = 0; go_on(i); ++i) {
    shut.store(true, std::memory_order_relaxed);
    ASSERT_TRUE(issue_thread_barrier());
    if (!flag.load(std::memory_order_acquire)) {
      ++taken;
      const long before = entered.load(std::memory_order_relaxed);
      for (int spin = 0; spin < 50; ++spin) ASSERT_EQ(inside.load(std::memory_order_relaxed), 0);
      ASSERT_EQ(entered.load(std::memory_order_relaxed), before);
    }
    shut.store(false, std::memory_order_release);
  }
  stop = true;
  owner.join();
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace llamalloc
