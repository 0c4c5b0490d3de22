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
// Of the calling thread of our own: a real-time thread that started it and never sleeps would keep
// the processor that both may use, while this one holds a lock.
void leave_real_time();

}  // namespace llamalloc
