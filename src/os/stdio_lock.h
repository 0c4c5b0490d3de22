// SPDX-License-Identifier: Apache-2.0
// The lock of the C library's list of streams, around a fork.
//
// We must take it before our own locks, in glibc's order. Otherwise three threads could deadlock:
// one in fflush(0) holds the list's lock and waits for a stream; the stream's owner, in getline,
// waits for malloc; and fork, with malloc's locks held, waits for the list's lock, which it takes
// after all handlers. The lock is recursive, so fork can take it once more.
#pragma once

namespace llamalloc {

// Before a fork. Does nothing in a single-threaded process: there fork may be called in a signal
// handler.
void lock_stdio_list();
// After it, in the parent, as often as it was locked.
void unlock_stdio_list();
// In the child, where fork has reset the lock.
void forget_stdio_list();

}  // namespace llamalloc
