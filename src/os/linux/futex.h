// SPDX-License-Identifier: Apache-2.0
// The futex system call, errno kept as it was.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/errno_keeper.h"

namespace llamalloc {

inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* timeout) {
  const ErrnoKeeper keep;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, timeout,
          nullptr, 0);
}

inline void futex_wake(std::atomic<uint32_t>& word, int count) {
  const ErrnoKeeper keep;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}

}  // namespace llamalloc
