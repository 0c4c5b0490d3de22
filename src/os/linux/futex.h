// SPDX-License-Identifier: Apache-2.0
// The futex system call, errno kept as it was.
//
// All of our waiting happens in one instruction, whose address is known: so a thread that blocks
// inside our code is told from one that blocks on a futex of the program's (os/sleeper.h).
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace llamalloc {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* timeout);
void futex_wake(std::atomic<uint32_t>& word, int count);
// The pc of a thread that waits in futex_wait; 0: not known on this processor.
uintptr_t futex_wait_pc();

}  // namespace llamalloc
