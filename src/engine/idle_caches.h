// SPDX-License-Identifier: Apache-2.0
// What threads cached before they went idle goes back to the heap: the worker empties the caches of
// threads that have not allocated for a while, as each slot in there pins a huge page.
//
//            claim                  barrier on all threads, then: not in use
//     own ----------> claimed ----------------------------------------------> flush --> emptied
//      ^                 |  in use after all                                              |
//      |-----------------+                                                                |
//      +--------------------------- the thread's next slow path --------------------------+
//
// claim: under the registry's lock the worker writes `claimed`, then puts the empty cache into the
// thread's slot. The thread may be anywhere then, also between reading its slot and using the
// cache. confirm: after the barrier the worker takes the cache only if the marks of the slot are
// clear and the slot still holds the empty cache. Then it is the worker's alone:
//   - a call that began before the barrier and is not over would show its mark (cache_slot.h);
//   - a call that is over left the slot as the worker sees it: one that took the cache back put it
//     into the slot before it cleared its mark;
//   - a call that begins later finds the empty cache, goes the slow way, finds `claimed` there and
//     does without. Only the worker ends `claimed`.
// Nothing is assumed about where the thread is: asleep, running, stopped, on another stack, in a
// signal handler, or in a child that shares its memory.
//
// A thread that ends closes its slot under the registry's lock and retires its cache or, if that is
// claimed, leaves it to the worker as `abandoned`. A fork waits for the end of a round (work_lock),
// so a child finds no cache claimed.
// A step of the engine does a round of it (Engine::empty_idle_caches, idle_caches.cc). This header
// says how; what it calls is declared in thread_registry.h.
#pragma once
