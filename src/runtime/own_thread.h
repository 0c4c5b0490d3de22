// SPDX-License-Identifier: Apache-2.0
// Threads of our own: the worker, and the one that serves the sockets.
#pragma once

#include <cstddef>

namespace llamalloc {

// Starts a detached thread with all signals blocked. Its stack has stack_bytes plus room for the
// thread-local variables of the whole program, which glibc puts there.
bool start_thread(void* (*main)(void*), size_t stack_bytes);

}  // namespace llamalloc
