// SPDX-License-Identifier: Apache-2.0
// Whether the byte at an address can be read. One system call.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/errno_keeper.h"

namespace llamalloc {

// The system reads the new mask before it refuses what to do with it: a guard page is EFAULT.
inline bool is_readable(uintptr_t page) {
  const ErrnoKeeper keep;
  return syscall(SYS_rt_sigprocmask, -1, page, nullptr, sizeof(uint64_t)) != 0 && errno == EINVAL;
}

}  // namespace llamalloc
