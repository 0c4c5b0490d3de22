// SPDX-License-Identifier: Apache-2.0
#include "os/thread_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_keeper.h"

namespace llamalloc {
namespace {

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

bool has_thread_barrier() {
  const ErrnoKeeper keep;
  const long known = membarrier(MEMBARRIER_CMD_QUERY);
  return known > 0 && (known & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

// EPERM: this process has not registered yet, nor did its parent before a fork.
bool issue_thread_barrier() {
  const ErrnoKeeper keep;
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  return errno == EPERM && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace llamalloc
