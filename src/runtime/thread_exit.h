// SPDX-License-Identifier: Apache-2.0
// The end of a thread: its cache goes back to the registry.
//
// The destructor of a pthread key calls us, in no defined order among other destructors. If a later
// destructor allocates, the thread gets a new cache. So we are called again in the next round.
// After that the thread uses the shared heap without a cache: it may be the system's last round but
// one.
//
// It does so, too, while the C library ends a thread after all destructors: it frees memory of its
// own, and of other threads whose stacks it no longer keeps (glibc keeps 40 MiB of stacks). A
// thread that has never had a cache may be there, so a free by the C library does not make it adopt
// one.
#pragma once

namespace llamalloc {

// Once, from the library's constructor. The calling thread may have a cache already (libstdc++
// allocates when it is initialised), and so may others.
void prepare_thread_exit();
// For the calling thread, when it adopts a cache. False: we will not be told when it ends.
bool call_at_thread_exit();
bool thread_is_past_exit();

}  // namespace llamalloc
