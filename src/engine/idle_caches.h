// SPDX-License-Identifier: Apache-2.0
// The worker empties the caches of threads that have not allocated for a while, or not since the
// heap asked for room (Engine::answer_call): each slot in such a cache pins a huge page.
//
//            claim                  barrier on all threads, then: not in use
//     own ----------> claimed ----------------------------------------------> flush --> emptied
//      ^                 |  in use after all                                              |
//      |-----------------+                                                                |
//      +--------------------------- the thread's next slow path --------------------------+
//
// claim: under the registry's lock the worker writes `claimed`, then puts the empty cache into the
// thread's slot. The thread may be at any point then, also between reading its slot and using the
// cache. confirm: after the barrier the worker takes the cache only if the marks of the slot are
// clear and the slot still holds the empty cache. Then only the worker uses the cache:
//   - a call that began before the barrier and is not over would show its mark (cache_slot.h);
//   - a call that is over left the slot as the worker sees it: if it took the cache back, it put
//     the cache into the slot before it cleared its mark;
//   - a call that begins later finds the empty cache, takes the slow path, finds `claimed` and uses
//     the shared heap instead. Only the worker ends `claimed`.
// It does not matter what the thread does: it may be asleep, running, stopped, on another stack, in
// a signal handler, or in a child that shares its memory.
//
// A thread that ends by the system call exit runs no destructor. Its slot may be unmapped memory
// soon, or another thread's. So the world is asked whether the thread exists
// (World::thread_exists), before each claim and again before each confirm. The cache of one that
// does not stays in use for good.
//
// A thread that ends closes its slot under the registry's lock and retires its cache or, if that is
// claimed, leaves it to the worker as `abandoned`. A fork waits for the end of a round (work_lock),
// so a child finds no cache claimed; but one in a signal handler that interrupted an allocation
// does not wait (ThreadRegistry::forget_others). Engine::step does one round of this
// (idle_caches.cc). What it calls is declared in thread_registry.h.
#pragma once
