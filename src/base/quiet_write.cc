// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_write.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/blocked_signals.h"
#include "base/errno_keeper.h"

namespace llamalloc {
namespace {

// The signal of the failed write waits for this thread, which takes it before those of the process.
void take_pipe_signal() {
  const ErrnoKeeper keep;
  const timespec now{};
  syscall(SYS_rt_sigtimedwait, &kPipeSignal, nullptr, &now, sizeof(kPipeSignal));
}

}  // namespace

long write_quietly(int fd, const void* data, size_t bytes) {
  const BlockedSignals here(kPipeSignal);
  const long written = syscall(SYS_write, fd, data, bytes);
  if (written < 0 && errno == EPIPE && here.changed()) take_pipe_signal();
  return written;
}

}  // namespace llamalloc
