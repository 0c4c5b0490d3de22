// SPDX-License-Identifier: Apache-2.0
#include "os/lock.h"

#include <gtest/gtest.h>

#include <thread>

namespace llamalloc {
namespace {

TEST(LockTest, OneAtATime) {
  Lock lock;
  int counter = 0;
  const auto count = [&] {
    for (int i = 0; i < 100'000; ++i) {
      LockGuard guard(lock);
      ++counter;
    }
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(counter, 200'000);
  EXPECT_FALSE(lock.is_held());
}

TEST(LockTest, AThreadThatHoldsAllPassesAndLeavesThemHeld) {
  Lock lock;
  lock.lock();
  Lock::this_thread_holds_all(true);
  {
    LockGuard guard(lock);
    EXPECT_TRUE(lock.is_held());
  }
  EXPECT_TRUE(lock.is_held());
  Lock made_since;
  {
    LockGuard guard(made_since);
    EXPECT_TRUE(made_since.is_held());
  }
  EXPECT_FALSE(made_since.is_held());
  Lock::this_thread_holds_all(false);
  lock.unlock();
  EXPECT_FALSE(lock.is_held());
}

TEST(LockTest, OthersWaitForAThreadThatHoldsAll) {
  Lock lock;
  bool entered = false;
  lock.lock();
  Lock::this_thread_holds_all(true);
  std::thread other([&] {
    LockGuard guard(lock);
    entered = true;
  });
  {
    LockGuard guard(lock);
    EXPECT_FALSE(entered);
  }
  Lock::this_thread_holds_all(false);
  lock.unlock();
  other.join();
  EXPECT_TRUE(entered);
}

TEST(LockTest, AThreadCountsItsLocks) {
  Lock first, second;
  EXPECT_EQ(locks_of_this_thread, 0u);
  {
    LockGuard guard(first);
    EXPECT_EQ(locks_of_this_thread, 1u);
    EXPECT_FALSE(first.try_lock());
    EXPECT_EQ(locks_of_this_thread, 1u);
    EXPECT_TRUE(second.try_lock());
    EXPECT_EQ(locks_of_this_thread, 2u);
    std::thread([] { EXPECT_EQ(locks_of_this_thread, 0u); }).join();
    second.unlock();
    Lock::this_thread_holds_all(true);
    {
      LockGuard passes(first);
    }
    Lock::this_thread_holds_all(false);
    EXPECT_EQ(locks_of_this_thread, 1u);
  }
  EXPECT_EQ(locks_of_this_thread, 0u);
}

TEST(LockTest, ResetWakesWhoSleeps) {
  Lock lock;
  lock.lock();
  std::thread other([&] { LockGuard guard(lock); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  lock.reset();
  other.join();
  EXPECT_FALSE(lock.is_held());
}

}  // namespace
}  // namespace llamalloc
