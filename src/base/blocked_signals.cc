// SPDX-License-Identifier: Apache-2.0
#include "base/blocked_signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/errno_keeper.h"

namespace llamalloc {
namespace {

constexpr uint64_t bit(int number) {
  return uint64_t{1} << (number - 1);
}

constexpr uint64_t kFaults =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS);
constexpr uint64_t kOfCLibrary = bit(32) | bit(33);  // pthread_cancel; setuid in all threads

}  // namespace

const uint64_t kPipeSignal = bit(SIGPIPE);
const uint64_t kSignalsFromOutside = ~(kFaults | kOfCLibrary);

BlockedSignals::BlockedSignals(uint64_t signals) : signals_(signals) {
  const ErrnoKeeper keep;
  const bool done =
      syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals, &before_, sizeof(signals)) == 0;
  changed_ = done && (signals & ~before_) != 0;
}

BlockedSignals::~BlockedSignals() {
  let_in();
}

void BlockedSignals::let_in() const {
  if (!changed_) return;
  const ErrnoKeeper keep;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
}

void BlockedSignals::block_again() const {
  if (!changed_) return;
  const ErrnoKeeper keep;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals_, nullptr, sizeof(signals_));
}

}  // namespace llamalloc
