// SPDX-License-Identifier: Apache-2.0
// The futex system call, errno kept as it was.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace llamalloc {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* timeout);
void futex_wake(std::atomic<uint32_t>& word, int count);

}  // namespace llamalloc
