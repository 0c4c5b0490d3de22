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

// Other threads subtract this from a thread's countdown, so that the thread takes the slow path;
// the thread adds it back. The thread's own plain store may overwrite the subtraction; the next
// round repeats it.
inline constexpr int64_t kCallIn = int64_t{1} << 60;

// Who may use the magazines of a thread's cache (engine/idle_caches.h).
enum class Custody : uint8_t {
  own,      // its thread
  claimed,  // the worker; the thread uses the shared heap meanwhile
  emptied,  // its thread, which has not allocated since the worker emptied them
};

// What the bytes that a thread allocates are counted for.
enum class Counting : uint8_t {
  nothing,
  growth,   // each so many, it looks whether the heap is large enough for samples
  samples,  // until the next one
};

struct CacheSlot;

struct alignas(kSmallPage) ThreadCache {
  // Bytes until the thread must do sampling, rechecks or housekeeping (Engine::tick); negative:
  // now.
  std::atomic<int64_t> countdown;
  bool predicting;    // allocations go through the prediction cache
  Counting counting;  // what bytes_to_sample counts
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
  CacheSlot* unannounced;  // what `slot` will be as soon as we would be told of the thread's end
  // Where the thread finds this cache; the worker writes to it. Null: the thread is ending or
  // vanished, or we would not be told of its end. This and the next two are guarded by the
  // registry's lock.
  CacheSlot* slot;
  bool abandoned;       // the thread ended while the cache was claimed: the worker retires it
  Nanos asked;          // when housekeeping became due
  uint8_t vain_claims;  // failed claims since `asked`; this and next_claim are the worker's
  Nanos next_claim;
  uint32_t tag;            // the thread's tag in the profiler's TagTable; 0: none
  ThreadCache* next;       // all caches ever made, under the registry's lock, like
  ThreadCache* next_free;  // those without a thread
  Magazines magazines;
};

}  // namespace llamalloc
