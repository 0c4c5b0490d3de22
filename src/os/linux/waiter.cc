// SPDX-License-Identifier: Apache-2.0
#include "os/waiter.h"

#include "os/linux/futex.h"

namespace llamalloc {

void Waiter::wait(Nanos at_most) {
  const timespec timeout{at_most.n / 1'000'000'000, at_most.n % 1'000'000'000};
  uint32_t expected = kAwake;
  if (state_.compare_exchange_strong(expected, kAsleep, std::memory_order_acq_rel))
    futex_wait(state_, kAsleep, &timeout);
  // Pairs with the exchange in wake(): what the caller wrote before is seen from here on.
  state_.exchange(kAwake, std::memory_order_acq_rel);
}

void Waiter::wake() {
  if (state_.exchange(kCalled, std::memory_order_acq_rel) == kAsleep) futex_wake(state_, 1);
}

}  // namespace llamalloc
