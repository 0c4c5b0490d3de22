// SPDX-License-Identifier: Apache-2.0
// write(2) that does not end the process by SIGPIPE, where the reader of a pipe has gone.
#pragma once

#include <cstddef>

namespace llamalloc {

// As write(2), errno too, but it is no cancellation point, and EPIPE comes without its signal. A
// thread that blocks SIGPIPE itself has it pending then, as after any write of its own: whether it
// was pending before could be asked only by a system call that filters may forbid.
long write_quietly(int fd, const void* data, size_t bytes);

}  // namespace llamalloc
