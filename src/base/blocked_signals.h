// SPDX-License-Identifier: Apache-2.0
// Signals that the calling thread does not get for a while. What comes meanwhile waits.
#pragma once

#include <cstdint>

namespace llamalloc {

// A bit for each signal: 1 << (number - 1).
extern const uint64_t kPipeSignal;
// All but those of a fault of the thread itself: blocked, such a signal would end the process
// without its handler. A filter of system calls may answer a call with SIGSYS. Nor those that the
// C library keeps to itself.
extern const uint64_t kSignalsFromOutside;

// Blocks the signals while this stands. Async-signal-safe; errno stays.
class BlockedSignals {
 public:
  explicit BlockedSignals(uint64_t signals);
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  // False: the thread blocked them all before, or the system refuses.
  bool changed() const { return changed_; }
  // For a while in between: let them in, and block them again.
  void let_in() const;
  void block_again() const;

 private:
  const uint64_t signals_;
  uint64_t before_ = 0;
  bool changed_;
};

}  // namespace llamalloc
