// SPDX-License-Identifier: Apache-2.0
// A futex lock of four bytes: no pthread, no allocation, usable before constructors and in a forked
// child (reset()). Not recursive, with one exception: while a thread holds all our locks for a
// fork, fork handlers of other libraries may allocate in it, so its LockGuards do nothing. Each
// thread counts the locks that it holds, so that a fork in a signal handler knows whether it
// interrupted our code. The check build also checks the order of locks (lock_rank.h).
//
//   state  0 free, 1 held, 2 held and somebody sleeps
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/thread_annotations.h"
#include "os/lock_rank.h"

namespace llamalloc {

class BlockedSignals;

// Locks that this thread holds or waits for. A signal handler may read it at any time.
extern constinit thread_local uint32_t locks_of_this_thread
    __attribute__((tls_model("initial-exec")));
// How often this thread waited for a lock, or let be what needed one, modulo 2^32.
extern constinit thread_local uint32_t waits_of_this_thread
    __attribute__((tls_model("initial-exec")));

class CAPABILITY("lock") Lock {
 public:
#ifdef LLAMALLOC_CHECK_BUILD
  constexpr explicit Lock(LockRank rank) : rank_(rank) {}
#else
  constexpr explicit Lock(LockRank) {}
#endif
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // False: the thread holds all locks, this one too; it must not unlock it.
  bool lock() ACQUIRE() {
    check_order();
    count_one();
    return counted(take() || lock_slow());
  }
  bool try_lock() TRY_ACQUIRE(true) {
    count_one();
    if (counted(take())) return true;
    --locks_of_this_thread;
    return false;
  }
  void unlock() RELEASE() {
    note_released();
    // Pairs with the acquire in lock(): the next holder sees what this one wrote.
    if (state_.exchange(0, std::memory_order_release) == 2) wake();
    std::atomic_signal_fence(std::memory_order_release);
    --locks_of_this_thread;
  }
#ifdef LLAMALLOC_CHECK_BUILD
  // How often it was taken.
  uint32_t times_taken() const { return times_taken_.load(std::memory_order_relaxed); }
#endif
  // For a function whose caller holds the lock, where the thread-safety analysis cannot see it.
  void assert_held() const ASSERT_CAPABILITY(this) { SLOW_DCHECK(is_held()); }
  bool is_held() const { return state_.load(std::memory_order_relaxed) != 0; }
  // Whether somebody sleeps until it is free. Not fair: its holder, too, may get it again first.
  bool is_awaited() const { return state_.load(std::memory_order_relaxed) == 2; }
  // Only in a child after fork: its holder does not exist in the child. Wakes waiters: an earlier
  // fork handler may have started threads that already wait.
  void reset() {
    forget_rank();
    if (state_.exchange(0, std::memory_order_relaxed) == 2) wake();
  }

  // True from the locking of all locks before a fork until their unlocking or reset after it.
  static void this_thread_holds_all(bool yes);
  // What the thread has blocked gets through while it waits for a lock: a collector of garbage may
  // have stopped the lock's holder by a signal, and wait until this thread has had it, too. null:
  // it has blocked nothing.
  static void this_thread_lets_in(const BlockedSignals* signals);
  // In a child after its locks were reset.
  static void this_thread_holds_none();
  // In a child of a fork in a signal handler, before it resets locks that the interrupted code
  // holds and will unlock: the check of their order forgets them.
  static void forget_order();
  static bool this_thread_holds_all();

 private:
  // Counts the lock before it is taken and until after it is free, which is on the safe side.
  static void count_one() {
    ++locks_of_this_thread;
    std::atomic_signal_fence(std::memory_order_acq_rel);
  }
  bool take() {
    uint32_t expected = 0;
    // Pairs with the release in unlock().
    return state_.compare_exchange_strong(expected, 1, std::memory_order_acquire);
  }
  bool lock_slow();
  void wake();
  std::atomic<uint32_t> state_{0};
#ifdef LLAMALLOC_CHECK_BUILD
  bool counted(bool taken) {
    if (taken) times_taken_.fetch_add(1, std::memory_order_relaxed);
    if (taken) note_taken();
    return taken;
  }
  void check_order() const;
  void note_taken();
  void note_released() const;
  // This thread holds none of the rank, as far as the check knows.
  void forget_rank() const;
  std::atomic<uint32_t> times_taken_{0};
  const LockRank rank_;
  mutable const Lock* below_ = nullptr;  // the next lower lock of this rank with the same holder
#else
  static bool counted(bool taken) { return taken; }
  static void check_order() {}
  static void note_released() {}
  static void forget_rank() {}
#endif
};

class SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) ACQUIRE(lock) : lock_(lock), taken_(lock.lock()) {}
  ~LockGuard() RELEASE() {
    if (__builtin_expect(taken_, 1)) lock_.unlock();
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
  const bool taken_;
};

}  // namespace llamalloc
