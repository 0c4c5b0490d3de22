// SPDX-License-Identifier: Apache-2.0
// Threads of our own: the worker, and the one that serves the sockets.
//
// A process ends when its last thread ends, also after the main thread ended by pthread_exit. glibc
// counts threads for that. Ours leave its count (__nptl_nthreads, which debuggers read too): the
// program's last thread then ends the process, and exit handlers run in it. A C library that hides
// its count would wait for our threads for ever.
#pragma once

#include <cstddef>

namespace llamalloc {

// Once, by the library's constructor. Later a lookup could wait for the loader's lock, whose holder
// may wait for the thread that calls malloc.
void prepare_own_threads();
// Starts a detached thread with all signals blocked. Its stack has stack_bytes plus room for the
// thread-local variables of the whole program, which glibc puts there.
bool start_thread(void (*main)(), size_t stack_bytes);
// Of the calling thread of our own, which has what the thread that started it has. A real-time
// thread that never sleeps, or one with a processor of its own, would keep the processor that both
// may use, while this one holds a lock. So it leaves real time, and takes the processors that the
// process had at its start. (A container's filter of system calls may end the process for a change;
// so nothing is changed that need not be.)
void leave_starters_place();
// Whether the calling thread runs only when others rest: by its policy (SCHED_IDLE, SCHED_BATCH) or
// nice value, unless the whole process began so. What it starts would do the same, and a user
// without rights cannot change that again.
bool is_below_process();

}  // namespace llamalloc
