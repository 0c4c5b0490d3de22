// SPDX-License-Identifier: Apache-2.0
// The one background thread: gives memory back, asks threads for what they hold, promotes expired
// pages, evaluates first-seen contexts, writes profiles.
//
// It starts with the library when a model or a profile is asked for; otherwise
// when there is something to give back, and then only at a safe point: a call of malloc or free
// that does not come from inside the C library or the loader, which might hold locks that
// pthread_create takes. A forked child starts its own in the same way.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "predict/prediction_cache.h"

namespace llamalloc {

// Something is waiting for the worker.
void want_worker();
// The worker comes within ten seconds, by itself; this starts one if there is none.
void want_idle_caches_emptied();
extern std::atomic<bool> worker_start_due;
[[gnu::noinline]] void start_worker_at_safe_point(uintptr_t return_address);
inline void start_worker_if_wanted(uintptr_t return_address) {
  if (__builtin_expect(worker_start_due.load(std::memory_order_relaxed), 0))
    start_worker_at_safe_point(return_address);
}
// From the constructor. False: no thread could be made.
bool start_worker();
// Detached, with all signals blocked, and a stack of that size beside the thread-local variables of
// the whole program, which lie on it too.
bool start_thread(void* (*main)(void*), size_t stack_bytes);
void worker_after_fork_in_child();

// A context that has no prediction yet, or whose prediction is due for another look.
void hand_to_worker(uint64_t key, uint64_t site_key, size_t size, CallSite site, bool recheck);

}  // namespace llamalloc
