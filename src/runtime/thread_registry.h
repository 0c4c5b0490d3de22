// SPDX-License-Identifier: Apache-2.0
// All thread caches of the process: made as threads come, flushed and reused as they go.
#pragma once

#include "os/arena.h"
#include "os/lock.h"
#include "runtime/thread_cache.h"

namespace llamalloc {

// The cache of the calling thread; a shared empty one before its first slow path, after its last
// exit handler, and when it slept (runtime/sleepers.h). That one fails every fast path without a
// test of its own. Whoever holds what was read here may use the cache until the thread next blocks
// outside of our code, and must not read it again in between.
extern constinit thread_local std::atomic<ThreadCache*> current_cache
    __attribute__((tls_model("initial-exec")));
extern constinit ThreadCache empty_cache;
// The cache that the thread has adopted, also while current_cache is the empty one; or null. For
// all but its magazines.
extern constinit thread_local ThreadCache* adopted_cache __attribute__((tls_model("initial-exec")));

class ThreadRegistry {
 public:
  // A cache for the calling thread: a used one, or a new one; null: no memory.
  ThreadCache* adopt(MetadataArena& arena);
  // Gives back all that the cache holds and keeps it for another thread.
  void retire(ThreadCache* cache, Heap& owner);
  // Asks every thread to return what it holds when it next allocates.
  void request_housekeeping(Nanos now);

  // A thread that has not allocated since `asked`; a copy, as it may end and its cache be reused.
  struct Idle {
    ThreadCache* cache;
    uint32_t thread_id;
    uintptr_t stack_end;
  };
  // Those whom housekeeping has waited for since `before` and that are due for a look; at most
  // `room`, another part of them each time. *more: others wait too.
  size_t find_idle(Nanos before, Nanos now, Idle* out, size_t room, bool* more);
  // The thread may come and go from here on: the worker writes to its slot.
  void open_slot(ThreadCache* cache, std::atomic<ThreadCache*>* slot);
  void close_slot(ThreadCache* cache);
  // Makes the thread's next call come to own_cache, which takes the cache back if it is still
  // offered. False: it is not there to be offered.
  bool offer(const Idle& idle);
  // After fork: the child keeps its own cache. What the others held stays lost, as their stacks do.
  void forget_others(ThreadCache* mine);
  // Makes every thread look at the options again.
  void wake_all();

  size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  Lock& lock() { return lock_; }

 private:
  Lock lock_;
  ThreadCache* all_ = nullptr;        // guarded by lock_; never shrinks
  size_t made_ = 0;                   // length of that list
  ThreadCache* next_idle_ = nullptr;  // where find_idle goes on; guarded by lock_
  std::atomic<size_t> in_use_{0};
};

}  // namespace llamalloc
