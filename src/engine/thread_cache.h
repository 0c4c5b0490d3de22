// SPDX-License-Identifier: Apache-2.0
// What belongs to one thread: its magazines, and its countdown to the next turn of bookkeeping.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "heap/magazines.h"
#include "os/own_stack.h"

namespace llamalloc {

// What others subtract from a thread's countdown to call it in; the thread adds it back. The
// thread's own plain update may swallow it: then it is called in the next time.
inline constexpr int64_t kCallIn = int64_t{1} << 60;

// Who may use the magazines of a thread's cache (engine/idle_caches.h).
enum class Custody : uint8_t {
  own,      // its thread
  claimed,  // the worker; the thread goes to the shared heap meanwhile
  emptied,  // its thread, which has not been back since the worker emptied them
};

struct CacheSlot;

struct alignas(kSmallPage) ThreadCache {
  // Bytes until the thread has to look up from its work (tick): sampling, re-evaluation,
  // housekeeping; negative: now.
  std::atomic<int64_t> countdown;
  bool predicting;  // allocations go through the prediction cache
  bool sampling;    // bytes_to_sample counts
  bool in_use;
  std::atomic<bool> housekeeping_due;
  uint32_t thread_id;
  uint64_t rng;
  int64_t countdown_start;   // value that the countdown was last set to
  int64_t bytes_to_sample;   // at the last setting
  int64_t bytes_to_recheck;  // at the last setting
  StackBounds own_stack;
  uint32_t busy;  // inside a slow path: what we call there must not come back to it
  std::atomic<Custody> custody;
  // Where the thread finds this cache, for the worker; null: the thread ends, or would do so
  // without telling. As the next two, guarded by the registry's lock.
  CacheSlot* slot;
  bool abandoned;       // the thread ended while the cache was claimed: the worker retires it
  Nanos asked;          // when housekeeping became due
  uint8_t vain_claims;  // since `asked`; as next_claim, the worker's
  Nanos next_claim;
  uint32_t tag;       // of what the thread does, in the profiler's TagTable; 0: none
  ThreadCache* next;  // all caches ever made, under the registry's lock
  Magazines magazines;
};

}  // namespace llamalloc
