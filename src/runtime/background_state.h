// SPDX-License-Identifier: Apache-2.0
// The state of the background thread; most of runtime uses background.h instead.
#pragma once

#include "os/symbols.h"
#include "os/waiter.h"
#include "placement/context_worker.h"
#include "runtime/process.h"
#include "runtime/process_code.h"

namespace llamalloc {

struct Background {
  Lock work_lock{LockRank::work};  // held during a round of work, and around a fork
  Waiter waiter;
  std::atomic<pid_t> pid{0};  // of the process whose memory this is
  // Where the worker could not be started: the time of the next try, and how long from the last one
  // to that. 0: it never failed. Written by who holds process.has_worker.
  std::atomic<int64_t> next_try{0};
  std::atomic<int64_t> between_tries{0};
  std::atomic<bool> told_of_failure{false};  // or a forked child: there may be many
  // Since when a thread of low priority leaves the start to others; 0: none did.
  std::atomic<int64_t> left_to_others{0};
  Nanos last_rest GUARDED_BY(work_lock){};
  ContextWorker contexts;  // under work_lock, except loaded() and its queue
  ProcessCode code;        // under work_lock, for contexts
  Symboliser* symboliser GUARDED_BY(work_lock) = nullptr;  // made when first needed

  Symboliser* ensure_symboliser() REQUIRES(work_lock) {
    if (symboliser == nullptr)
      symboliser = process.arena.make<Symboliser>(process.arena, process.system);
    return symboliser;
  }
};

extern Background background;

// For who must not wait without an end: the worker may write to a disk that hangs, or wait for a
// lock of the loader that the caller holds. False: it was not free for so long, or this thread
// holds all locks for a fork.
bool wait_for_work_lock(Nanos longest) TRY_ACQUIRE(true, background.work_lock);

}  // namespace llamalloc
