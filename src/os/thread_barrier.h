// SPDX-License-Identifier: Apache-2.0
// A memory barrier that one thread issues for all: membarrier(2), private and expedited,
// Linux 4.14. When it returns, every thread that shares this process's memory has passed a full
// memory barrier since the call: those on a processor by an interrupt, the others when they were
// switched out. So a thread that stores A and then loads B, with a compiler barrier only in
// between, and a caller that stores B, issues the barrier and loads A, cannot both miss the other's
// store.
#pragma once

namespace llamalloc {

// Called once, early. True: the kernel supports the barrier. If a seccomp filter kills processes
// for membarrier, it happens here.
bool has_thread_barrier();
// Before the first barrier of a process, unless its parent called it before the fork: else that
// barrier does. Takes the system 20 ms where the process has several threads.
void prepare_thread_barrier();
// False: the kernel, or a seccomp filter, refuses.
bool issue_thread_barrier();

}  // namespace llamalloc
