// SPDX-License-Identifier: Apache-2.0
// Records what the program asks of its allocator: the hooks that the recording library calls.
//
//   malloc  the memory came  -> record_allocate     stamped after, so that whoever gets memory is
//   free    record_free -> the memory goes back     always stamped later than who gave it up
//
//   hook -> call stack (os/unwind.h) -> its number (trace_tables)
//        -> event in the thread's chunk (thread_log)
//        -> trace_output, when the chunk is full or the thread ends
//   naming thread: function names and modules of new stacks -> trace_output
//
// New stacks are written before the chunk whose events refer to them. A lock is taken only for a
// new stack or a full chunk. If the process is killed, each thread loses at most its last 64 KiB.
// The same is lost if a signal handler ends the process and interrupted its thread while that held
// a lock, ours or the allocator's. If it interrupted an event, that thread loses its last chunk.
//
// Not recorded: what a signal handler asks that interrupts the recorder; a child that has a copy of
// our memory and ran no fork handlers (_Fork, bare system calls), since it may have copied locks
// whose holders do not exist there. exec keeps the PID: the new program's recording replaces the
// old one.
//
// Off unless LLAMALLOC_TRACE names a file when the library starts. What is asked before that is
// kept in the first buffer of each thread. Every hook keeps errno, takes no lock that a program
// could see, and never calls malloc; a full disk ends the recording with one line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

// The calling thread is inside the allocator or the recorder: what they ask for themselves (the
// stack of a thread of their own) is no event of the program.
extern constinit thread_local bool is_inside __attribute__((tls_model("initial-exec")));
class InsideScope {
 public:
  InsideScope() { is_inside = true; }
  ~InsideScope() { is_inside = false; }
};

[[gnu::noinline]] void record_allocate(const void* p, size_t size, size_t alignment,
                                       uintptr_t return_address);
[[gnu::noinline]] void record_free(const void* p);
// A resize has a beginning (before the old address may go back) and one of two ends.
[[gnu::noinline]] void record_resize_begin(const void* old);
[[gnu::noinline]] void record_resize_end(const void* now, size_t size, uintptr_t return_address);
[[gnu::noinline]] void record_resize_failed(const void* old);

// The process is about to end: what is recorded is written. Nothing in a child of vfork, whose
// memory is its parent's.
void end_recording();
[[noreturn]] void end_process(int status);
// daemon(3), whose parent ends so.
int become_daemon(bool keeps_folder, bool keeps_files);

}  // namespace llamalloc
