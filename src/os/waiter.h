// SPDX-License-Identifier: Apache-2.0
// A thread that sleeps until somebody has work for it or a time is over. A wake() that comes while
// it is awake is kept: its next wait() ends at once. No file descriptor is held, which a program
// that closes all of its own would take from us.
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
  // By anybody. What the caller wrote before is seen by the waiting thread after its next wait().
  void wake();

 private:
  static constexpr uint32_t kAwake = 0, kAsleep = 1, kCalled = 2;
  std::atomic<uint32_t> state_{kAwake};
};

}  // namespace llamalloc
