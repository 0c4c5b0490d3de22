// SPDX-License-Identifier: Apache-2.0
// A futex lock of four bytes: no pthread, no allocation, usable before constructors and in a forked
// child (reset()). Not recursive.
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

  void lock() {
    uint32_t expected = 0;
    // Pairs with the release in unlock().
    if (!state_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) lock_slow();
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
  // Only in a child after fork, where no other thread exists.
  void reset() { state_.store(0, std::memory_order_relaxed); }

 private:
  void lock_slow();
  void wake();
  std::atomic<uint32_t> state_{0};
};

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace llamalloc
