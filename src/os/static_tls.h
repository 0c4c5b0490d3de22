// SPDX-License-Identifier: Apache-2.0
// The thread-local variables that every thread has on its stack (glibc's static TLS block).
#pragma once

#include <cstddef>

namespace llamalloc {

// Bytes of the thread-local variables of all loaded modules, with alignment: an upper bound.
size_t thread_local_bytes();

}  // namespace llamalloc
