// SPDX-License-Identifier: Apache-2.0
// What threads cached before they blocked goes back to the heap: the worker empties their magazines
// for them, as each slot in there pins a huge page. The fast paths know nothing of it.
//
//            the worker, at a thread that          the thread, when it
//            did not allocate for a while          next comes to own_cache
//
//     own ------- offer -------> offered -----------> own    (take_back)
//                                   |
//                    it is asleep   v
//                    outside of   taken ------------> shared heap, without a cache for this call
//                    our code       |
//                         flush     v
//                                emptied -----------> own    (take_back)
//
// offer: the worker writes the empty cache into the thread's current_cache, as if the thread had
// none yet, so that its next call fails the fast path and comes to own_cache. The thread may be
// anywhere then, also between reading current_cache and using it, so nothing is taken yet.
//
// Proof: after that, the worker sees the thread at a moment T at which it is blocked outside of our
// code (os/sleeper.h). At T the thread holds no pointer to its cache: it reads current_cache anew
// in each call, and no call is under way. When it runs again it reads the empty cache, which was
// written before T. So whatever it does after T, it uses the magazines only after take_back, and
// take_back fails after the exchange of `offered` for `taken`. That in turn fails if the thread was
// faster: only the worker makes a cache `offered`, so it was so all the time since before T.
//
// `busy` covers what the look cannot tell from the program's own code: a thread that we have start
// another blocks in the C library.
//
// A thread that ends closes its slot under the registry's lock, under which the worker writes to
// it, and retires its cache or, if it is taken, leaves that to the worker. A fork waits for the end
// of a round (work_lock), so a child finds no cache taken.
//
// The looks are made by a thread that lives for one round and leaves the process's descriptors
// first: a program that closes descriptor 0 and opens a file expects to get 0. Nothing is done
// under a seccomp filter, which may end the process for an openat, unless an option says that it
// allows what os/sleeper.h lists; nothing with raised privileges; nothing where the heap is too
// small to matter. A signal, ptrace or membarrier are not used: programs see signals, a debugger
// needs ptrace, and no barrier tells whether a pointer is held.
#pragma once

#include "base/units.h"

namespace llamalloc {

// Huge pages in use below which sleeping threads keep what they have: they pin no more than these.
inline constexpr size_t kFewPages = 4;

// One round; by the worker, under its lock. True: threads that may be asleep are left to look at.
bool empty_sleeping_caches(Nanos now);

}  // namespace llamalloc
