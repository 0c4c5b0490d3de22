// SPDX-License-Identifier: Apache-2.0
// Descriptors of ours in a process that numbers its own.
#pragma once

#include <cstdint>

namespace llamalloc {

// The same open file at another number, if its own is 0, 1 or 2: a program that closed one of those
// and prints would otherwise write into what we opened. -1 stays -1; errno as it was.
int off_standard(int fd);
// The same for one that stays open: high, so that the program's own stay small (select).
int move_high(int fd);
// Whether a file may not become so long: the write would end the program by a signal.
bool exceeds_file_size_limit(uint64_t length);

}  // namespace llamalloc
