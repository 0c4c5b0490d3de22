// SPDX-License-Identifier: Apache-2.0
// A futex lock of four bytes: no pthread, no allocation, usable before constructors and in a forked
// child (reset()). Not recursive, but for a thread that holds all locks of the process for a fork:
// fork handlers of others that run while it does may allocate, so its LockGuards pass.
//
//   state  0 free, 1 held, 2 held and somebody sleeps
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace llamalloc {

class Lock {
 public:
  constexpr Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // False: the thread holds all locks, this one too; it must not unlock it.
  bool lock() {
    uint32_t expected = 0;
    // Pairs with the release in unlock().
    return state_.compare_exchange_strong(expected, 1, std::memory_order_acquire) || lock_slow();
  }
  bool try_lock() {
    uint32_t expected = 0;
    return state_.compare_exchange_strong(expected, 1, std::memory_order_acquire);
  }
  void unlock() {
    // Pairs with the acquire in lock(): the next holder sees what this one wrote.
    if (state_.exchange(0, std::memory_order_release) == 2) wake();
  }
  bool is_held() const { return state_.load(std::memory_order_relaxed) != 0; }
  // Only in a child after fork: of whoever held it, nobody exists. Others may sleep already, in
  // threads that a fork handler before ours made.
  void reset() {
    if (state_.exchange(0, std::memory_order_relaxed) == 2) wake();
  }

  // Between the locking of all locks before a fork and their unlocking or reset after it.
  static void this_thread_holds_all(bool yes);
  static bool this_thread_holds_all();

 private:
  bool lock_slow();
  void wake();
  std::atomic<uint32_t> state_{0};
};

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock), taken_(lock.lock()) {}
  ~LockGuard() {
    if (__builtin_expect(taken_, 1)) lock_.unlock();
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
  const bool taken_;
};

}  // namespace llamalloc
