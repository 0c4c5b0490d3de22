// SPDX-License-Identifier: Apache-2.0
#include "os/lock.h"

#include "os/linux/futex.h"

namespace llamalloc {

void Lock::lock_slow() {
  for (int spin = 0; spin < 100; ++spin) {
    if (state_.load(std::memory_order_relaxed) == 0 && try_lock()) return;
    __builtin_ia32_pause();
  }
  while (state_.exchange(2, std::memory_order_acquire) != 0) futex_wait(state_, 2, nullptr);
}

void Lock::wake() {
  futex_wake(state_, 1);
}

}  // namespace llamalloc
