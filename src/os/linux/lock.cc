// SPDX-License-Identifier: Apache-2.0
#include "os/lock.h"

#include "os/linux/futex.h"

namespace llamalloc {
namespace {

constinit thread_local bool holds_all __attribute__((tls_model("initial-exec"))) = false;

}  // namespace

constinit thread_local uint32_t locks_of_this_thread __attribute__((tls_model("initial-exec"))) = 0;

void Lock::this_thread_holds_all(bool yes) {
  holds_all = yes;
}
bool Lock::this_thread_holds_all() {
  return holds_all;
}

bool Lock::lock_slow() {
  if (holds_all) {
    --locks_of_this_thread;
    return false;
  }
  for (int spin = 0; spin < 100; ++spin) {
    if (state_.load(std::memory_order_relaxed) == 0 && take()) return true;
    __builtin_ia32_pause();
  }
  while (state_.exchange(2, std::memory_order_acquire) != 0) futex_wait(state_, 2, nullptr);
  return true;
}

void Lock::wake() {
  futex_wake(state_, 1);
}

}  // namespace llamalloc
