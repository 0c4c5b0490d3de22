// SPDX-License-Identifier: Apache-2.0
// All thread caches of the process: made as threads come, flushed and reused as they go.
#pragma once

#include "os/arena.h"
#include "os/lock.h"
#include "runtime/thread_cache.h"

namespace llamalloc {

// The cache of the calling thread; a shared empty one before its first slow path and
// after its last exit handler. It fails every fast path without a test of its own.
extern constinit thread_local ThreadCache* current_cache __attribute__((tls_model("initial-exec")));
extern constinit ThreadCache empty_cache;

class ThreadRegistry {
 public:
  // A cache for the calling thread: a used one, or a new one; null: no memory.
  ThreadCache* adopt(MetadataArena& arena);
  // Gives back all that the cache holds and keeps it for another thread.
  void retire(ThreadCache* cache, Heap& owner);
  // Asks every thread to return what it holds when it next allocates.
  void request_housekeeping();
  // After fork: the child keeps its own cache. What the others held stays lost, as their stacks do.
  void forget_others(ThreadCache* mine);
  // Makes every thread look at the options again.
  void wake_all();

  size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  Lock& lock() { return lock_; }

 private:
  Lock lock_;
  ThreadCache* all_ = nullptr;  // guarded by lock_; never shrinks
  std::atomic<size_t> in_use_{0};
};

}  // namespace llamalloc
