// SPDX-License-Identifier: Apache-2.0
#include "os/linux/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/errno_keeper.h"

namespace llamalloc {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* timeout) {
  const ErrnoKeeper keep;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, timeout,
          nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  const ErrnoKeeper keep;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}

}  // namespace llamalloc
