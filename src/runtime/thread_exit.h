// SPDX-License-Identifier: Apache-2.0
// The end of a thread: its heap goes back to the registry.
//
// A pthread key calls us among the other keys' destructors, in no order we could choose. What later
// destructors allocate gives the thread a new heap and us another call, up to the system's limit of
// rounds; after the last, the thread works on the shared heap without one of its own.
#pragma once

namespace llamalloc {

// Once, from the library's constructor.
void prepare_thread_exit();
// For the calling thread, when it got a heap. False: nobody will be told when it ends.
bool call_at_thread_exit();
bool thread_is_past_exit();

}  // namespace llamalloc
