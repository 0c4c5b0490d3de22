// SPDX-License-Identifier: Apache-2.0
// The lock of the C library's list of streams, around a fork.
//
// A thread in fflush(0) holds it and waits for a stream; the stream's thread, in getline, waits for
// malloc; a forking thread that holds malloc's locks waits for the list, as fork takes it after all
// handlers ran. So it comes first: glibc's own order. It is recursive, so fork takes it once more.
#pragma once

namespace llamalloc {

// Before a fork. Nothing in a process of one thread: there a fork may be in a signal handler.
void lock_stdio_list();
// After it, in the parent, as often as it was locked.
void unlock_stdio_list();
// In the child, where fork has reset the lock.
void forget_stdio_list();

}  // namespace llamalloc
