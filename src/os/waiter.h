// SPDX-License-Identifier: Apache-2.0
// Lets one thread sleep until it is woken or a time has passed. A wake() while it is awake is kept:
// its next wait() returns at once. It uses no file descriptor, since a program that closes all
// descriptors would close ours too.
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
