// SPDX-License-Identifier: Apache-2.0
// The background thread, called the worker: returns memory to the system, asks threads to return
// their caches, promotes expired pages, evaluates new contexts, writes profiles.
//
// It starts with the library if a model, a profile or statistics are configured, or if objects are
// placed by lifetime from the start. Otherwise it starts when there is memory to return, or enough
// to learn from, and then only at a safe point: a call of malloc or free that does not come from
// the C library or the loader, nor from a signal handler, which may have interrupted them. Those
// might hold locks that pthread_create takes. A thread of low priority leaves the start to others
// for ten seconds. A forked child starts its own worker in the same way.
// A child that shares our memory (vfork, clone(CLONE_VM)) leaves the start to its parent. A child
// of the bare system call, or of _Fork, which run no fork handlers, has no worker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "predict/prediction_cache.h"

namespace llamalloc {

// Wakes or starts the worker: there is work for it. The second wakes it from any sleep.
void want_worker();
void call_worker();
// Starts a worker if there is none. A running worker comes within ten seconds by itself.
void want_idle_caches_emptied();
extern std::atomic<bool> worker_start_due;
[[gnu::noinline]] void start_worker_at_safe_point(uintptr_t return_address);
inline void start_worker_if_wanted(uintptr_t return_address) {
  if (__builtin_expect(worker_start_due.load(std::memory_order_relaxed), 0))
    start_worker_at_safe_point(return_address);
}
// Called by the constructor, before anything below.
void remember_process();
// False in a child that has our memory and ran no fork handlers: of the bare system call, or vfork.
bool is_own_process();
// False: no thread could be created, or this is a child that shares our memory.
bool start_worker();
void worker_after_fork_in_child();

// Queues a context that has no prediction yet, or whose prediction is due for a recheck.
void hand_to_worker(uint64_t key, uint64_t site_key, size_t size, CallSite site, bool recheck);

}  // namespace llamalloc
