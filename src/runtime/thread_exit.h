// SPDX-License-Identifier: Apache-2.0
// The end of a thread: its cache goes back to the registry.
//
// The destructor of a pthread key calls us, in no defined order among other destructors. If a later
// destructor allocates, the thread gets a new cache and we are called again, up to the system's
// limit of rounds. After the last round the thread uses the shared heap without a cache.
#pragma once

namespace llamalloc {

// Once, from the library's constructor. The calling thread may have a cache already: libstdc++
// allocates when it is initialised.
void prepare_thread_exit();
// For the calling thread, when it adopts a cache. False: we will not be told when it ends.
bool call_at_thread_exit();
bool thread_is_past_exit();

}  // namespace llamalloc
