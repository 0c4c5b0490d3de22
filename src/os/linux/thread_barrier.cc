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

void prepare_thread_barrier() {
  const ErrnoKeeper keep;
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool issue_thread_barrier() {
  const ErrnoKeeper keep;
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  if (errno != EPERM) return false;
  prepare_thread_barrier();
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace llamalloc
