// SPDX-License-Identifier: Apache-2.0
#include "runtime/release.h"

#include "os/no_cancel.h"
#include "os/waiter.h"
#include "runtime/background_state.h"

namespace llamalloc {
namespace {

// Pages are broken by one thread at a time; the worker may be at it, or write a profile.
constexpr Nanos kLongestWait = Nanos::seconds(1);
constexpr Nanos kStep = Nanos{100'000};  // between two steps: for who waits for the lock

// The lock is free for a while between two steps, so that the worker, and a fork, never wait for
// all of them: it is not fair, and who wakes up would find it taken again.
bool release_some_parts(Nanos before, Released* all) NO_THREAD_SAFETY_ANALYSIS {
  if (!wait_for_work_lock(kLongestWait)) return false;
  const bool more = process.release_free_parts(before, all);
  background.work_lock.unlock();
  return more;
}

void flush_own_cache() {
  const SlowPath slow;
  ThreadCache* const cache = cache_slot.cache.load(std::memory_order_relaxed);
  if (cache != &empty_cache) process.flush_cache(cache);
}

}  // namespace

Released release_memory(size_t keep) {
  const NoCancel here;
  flush_own_cache();
  const Nanos before = process.system.now();
  Released all = process.release(keep);
  Waiter pause;
  while (release_some_parts(before, &all)) pause.wait(kStep);
  return all;
}

}  // namespace llamalloc
