// SPDX-License-Identifier: Apache-2.0
// All thread caches of the process: created when a thread starts, flushed and reused when one ends.
#pragma once

#include "engine/cache_slot.h"
#include "engine/world.h"
#include "os/arena.h"
#include "os/lock.h"

namespace llamalloc {

class ThreadRegistry {
 public:
  // empty: the cache that a thread's slot holds while its own cache is claimed.
  constexpr explicit ThreadRegistry(ThreadCache& empty) : empty_(empty) {}

  // What a thread's slot holds that has no cache of its own, or whose cache is claimed.
  ThreadCache* empty() const { return &empty_; }
  // A cache for the calling thread, reused or new; null: no memory.
  ThreadCache* adopt(MetadataArena& arena);
  // Gives back all that the cache holds and keeps it for another thread.
  void retire(ThreadCache* cache, Heap& owner);
  // Asks every thread to return what it holds when it next allocates.
  void request_housekeeping(Nanos now);

  // From now on the worker may write to the thread's slot.
  void open_slot(ThreadCache* cache, CacheSlot* slot);
  // False: the cache is claimed, and the worker will retire it.
  bool close_slot(ThreadCache* cache);

  // How the worker takes the caches of idle threads (engine/idle_caches.h).
  //
  // Claims caches that are due for a claim and whose threads were asked for housekeeping before
  // `before` and have not answered. Claims at most `room`, and continues there in the next call.
  // Closes the slot of a thread that does not exist any more: its cache stays as it is.
  // *more: other caches are due too.
  size_t claim_idle(World& world, Nanos before, Nanos now, ThreadCache** out, size_t room,
                    bool* more);
  // After a barrier on all threads (fenced: there was one). True: the cache is the worker's. False:
  // its thread uses it or does not exist any more, and the claim is over.
  bool confirm_claim(World& world, ThreadCache* cache, bool fenced);
  // The cache is its thread's again. False: the thread has ended, the caller retires the cache.
  bool end_claim(ThreadCache* cache, Custody next);
  // Called by the thread in a slow path that found the empty cache. False: its own cache is claimed
  // now.
  bool take_back(ThreadCache* cache, CacheSlot* slot);
  // After fork: the child keeps its own cache. The caches of the other threads are lost, like their
  // stacks.
  void forget_others(ThreadCache* mine);
  // Makes every thread look at the options again.
  void wake_all();

  // For runtime/published.h.
  const std::atomic<size_t>* in_use_counter() const { return &in_use_; }
  size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  ThreadCache& empty_;
  Lock lock_{LockRank::registry};
  ThreadCache* all_ GUARDED_BY(lock_) = nullptr;        // never shrinks
  ThreadCache* free_ GUARDED_BY(lock_) = nullptr;       // the one used last comes first
  ThreadCache* next_idle_ GUARDED_BY(lock_) = nullptr;  // where claim_idle goes on
  std::atomic<size_t> in_use_{0};
};

}  // namespace llamalloc
