// SPDX-License-Identifier: Apache-2.0
#include "os/lock.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/blocked_signals.h"

namespace llamalloc {
namespace {

TEST(LockTest, OneAtATime) {
  Lock lock{LockRank::pool};
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
  Lock lock{LockRank::pool};
  lock.lock();
  Lock::this_thread_holds_all(true);
  {
    LockGuard guard(lock);
    EXPECT_TRUE(lock.is_held());
  }
  EXPECT_TRUE(lock.is_held());
  Lock made_since{LockRank::pool};
  {
    LockGuard guard(made_since);
    EXPECT_TRUE(made_since.is_held());
  }
  EXPECT_FALSE(made_since.is_held());
  Lock::this_thread_holds_all(false);
  lock.unlock();
  EXPECT_FALSE(lock.is_held());
}

std::atomic<bool> had_signal{false};

// A collector that stops all threads by a signal has stopped the one with the lock already.
TEST(LockTest, WhatAForkBlocksGetsThroughWhileItWaits) {
  signal(SIGUSR2, [](int) { had_signal = true; });
  Lock lock{LockRank::pool};
  lock.lock();
  std::atomic<bool> is_in{false};
  std::thread other([&] {
    const BlockedSignals here(kSignalsFromOutside);
    Lock::this_thread_lets_in(&here);
    is_in = true;
    LockGuard guard(lock);
    raise(SIGUSR2);
    EXPECT_FALSE(had_signal) << "blocked again";
    Lock::this_thread_lets_in(nullptr);
  });
  while (!is_in) std::this_thread::yield();
  pthread_kill(other.native_handle(), SIGUSR2);
  for (int i = 0; i < 10'000 && !had_signal; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(had_signal.exchange(false));
  lock.unlock();
  other.join();
  EXPECT_TRUE(had_signal);
}

TEST(LockTest, OthersWaitForAThreadThatHoldsAll) {
  Lock lock{LockRank::pool};
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
  Lock first{LockRank::bin}, second{LockRank::pool};
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
  Lock lock{LockRank::pool};
  lock.lock();
  std::thread other([&] { LockGuard guard(lock); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  lock.reset();
  other.join();
  EXPECT_FALSE(lock.is_held());
}

#ifdef LLAMALLOC_CHECK_BUILD

void take_both(Lock& first, Lock& second) {
  LockGuard outer(first);
  LockGuard inner(second);
}

TEST(LockOrder, RisingRanksPass) {
  Lock bin{LockRank::bin}, pool{LockRank::pool}, arena{LockRank::arena};
  take_both(bin, pool);
  take_both(bin, arena);
  take_both(pool, arena);
}

TEST(LockOrderDeathTest, AFallingRankFails) {
  Lock bin{LockRank::bin}, pool{LockRank::pool};
  EXPECT_DEATH(take_both(pool, bin), "holds a lock of rank pool takes one of rank bin");
}

TEST(LockOrderDeathTest, OfARankSeveralAreTakenByRisingAddressOrNone) {
  Lock sets[] = {Lock{LockRank::page_set}, Lock{LockRank::page_set}};
  for (int i = 0; i < 2; ++i) take_both(sets[0], sets[1]);
  {
    LockGuard outer(sets[0]);
    for (int i = 0; i < 2; ++i) LockGuard inner(sets[1]);
  }
  EXPECT_DEATH(take_both(sets[1], sets[0]), "rank page_set takes one of rank page_set");
  Lock arenas[] = {Lock{LockRank::arena}, Lock{LockRank::arena}};
  EXPECT_DEATH(take_both(arenas[0], arenas[1]), "rank arena takes one of rank arena");
}

TEST(LockOrder, SeveralAreGivenUpInAnyOrder) {
  Lock bins[] = {Lock{LockRank::bin}, Lock{LockRank::bin}, Lock{LockRank::bin}};
  for (const int first : {0, 1, 2}) {
    for (Lock& bin : bins) bin.lock();
    for (int i = 0; i < 3; ++i) bins[(first + i) % 3].unlock();
  }
  take_both(bins[0], bins[1]);
}

TEST(LockOrder, ATryWaitsForNobody) {
  Lock bin{LockRank::bin}, pool{LockRank::pool};
  LockGuard guard(pool);
  ASSERT_TRUE(bin.try_lock());
  bin.unlock();
}

TEST(LockOrderDeathTest, WhatAThreadTriedItHolds) {
  Lock bin{LockRank::bin}, pool{LockRank::pool};
  ASSERT_TRUE(pool.try_lock());
  EXPECT_DEATH(bin.lock(), "rank pool takes one of rank bin");
  pool.unlock();
  bin.lock();
  bin.unlock();
}

// Fork handlers that run inside of ours, and a child whose locks are as new.
TEST(LockOrder, AForkStartsAnew) {
  Lock bin{LockRank::bin}, pool{LockRank::pool};
  pool.lock();
  Lock::this_thread_holds_all(true);
  {
    LockGuard guard(bin);
  }
  Lock::this_thread_holds_all(false);
  pool.reset();
  {
    LockGuard guard(bin);
  }
  pool.lock();
  Lock::this_thread_holds_none();
  {
    LockGuard guard(bin);
  }
  pool.unlock();
  Lock::this_thread_holds_none();
}

#endif

}  // namespace
}  // namespace llamalloc
