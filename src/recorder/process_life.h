// SPDX-License-Identifier: Apache-2.0
// Where the recording meets the life of the process: threads that end, fork, start and exit, and
// the thread that names frames.
#pragma once

#include <cstdint>

#include "recorder/thread_log.h"

namespace llamalloc {

// Notes the thread's number, and asks to be called when it ends.
void remember_thread(ThreadLog* log);
// Its exit handler has run: it records into the shared log, under the number it had.
bool thread_is_past_its_handler();
uint32_t thread_number();
// The calling thread may hold locks of the recorder or the allocator: it is in a signal handler
// that interrupted them, or forks. It must not wait for one.
bool may_hold_our_locks();

// Once; right after those of the allocator: its locks are taken first and given up last, and nobody
// else's handler runs between (runtime/fork.h).
void register_recorder_fork_handlers();

}  // namespace llamalloc
