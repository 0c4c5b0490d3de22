// SPDX-License-Identifier: Apache-2.0
#include "os/waiter.h"

#include "os/linux/futex.h"

namespace llamalloc {

void Waiter::wait(Nanos at_most) {
  const timespec timeout{at_most.n / 1'000'000'000, at_most.n % 1'000'000'000};
  state_.store(kAsleep, std::memory_order_release);
  futex_wait(state_, kAsleep, &timeout);
  state_.store(kAwake, std::memory_order_relaxed);
}

void Waiter::wake_slow() {
  if (state_.exchange(kAwake, std::memory_order_acq_rel) == kAsleep) futex_wake(state_, 1);
}

}  // namespace llamalloc
