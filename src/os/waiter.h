// SPDX-License-Identifier: Apache-2.0
// A thread that sleeps until somebody has work for it or a time is over. A wake() that comes while
// it is awake is kept: its next wait() ends at once. wake() costs one load when there is one
// already; no file descriptor is held, which a program that closes all of its own would take from
// us.
//
//   awake --wait--> asleep --wake--> called --(wait ends)--> awake
//   awake --wake--> called --wait, at once--> awake
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

class Waiter {
 public:
  // By the one waiting thread.
  void wait(Nanos at_most);
  // By anybody.
  void wake() {
    if (state_.load(std::memory_order_relaxed) != kCalled) wake_slow();
  }

 private:
  static constexpr uint32_t kAwake = 0, kAsleep = 1, kCalled = 2;
  void wake_slow();
  std::atomic<uint32_t> state_{kAwake};
};

}  // namespace llamalloc
