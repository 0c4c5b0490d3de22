// SPDX-License-Identifier: Apache-2.0
// Whether another thread of this process is blocked in the program's own code: outside of ours, and
// not in a signal handler, which might have interrupted ours.
//
// The kernel tells it in /proc/self/task/TID. `syscall` gives the system call, sp and pc of a
// thread that is off its processor and blocked, and "running" for any other; `status` how often the
// thread was switched out. One look is
//
//   status  syscall  stack  syscall  status
//
// and proves that the thread was blocked all the time between the two readings of `syscall`: to run
// in between and be blocked again it must have been switched out once more, which the second
// reading of `status` shows. So what was read of the stack in between is the stack that the first
// reading speaks of. Then the thread is in the program's own code if
//
//   - the call is one that programs wait in and our code does not (a list), or futex, but not from
//     the one instruction at which we wait on futexes; a thread that was interrupted outside of a
//     system call (a page fault, a signal that stops it) has none;
//   - sp lies in the thread's own stack: not on a signal handler's or a coroutine's;
//   - no word between sp and the stack's end is the pair of segment registers that the kernel saves
//     in a signal frame. What a handler left there long ago looks the same: such a thread counts as
//     awake, as does one more than kDeepest below its stack's end.
//
// What it asks of the system: openat, pread64 and close on these two files, process_vm_readv on
// ourselves, prctl, close_range. Any that fails ends the look. Valgrind and emulators, where sp is
// that of another stack, fail the second condition.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

class SleeperLook {
 public:
  static constexpr size_t kDeepest = size_t{256} << 10;

  // thread_id: as gettid has it. stack_high: the end of the thread's own stack.
  SleeperLook(uint32_t thread_id, uintptr_t stack_high);
  ~SleeperLook();
  SleeperLook(const SleeperLook&) = delete;
  SleeperLook& operator=(const SleeperLook&) = delete;

  // A hint, at a third of the cost.
  bool seems_asleep() const;
  // True: at one moment during this call the thread was blocked in the program's own code. What the
  // caller wrote before, the thread sees when it next runs; what the thread wrote before it
  // blocked, the caller sees: both sides take the lock of the thread's run queue in the kernel, the
  // caller here, the thread when it is switched out and in.
  bool is_asleep() const;

 private:
  struct Place {
    int64_t call;
    uintptr_t sp, pc;
  };
  bool read_place(Place* out) const;
  bool read_switches(uint64_t* out) const;
  bool is_in_program(const Place& place) const;
  bool has_signal_frame(uintptr_t low) const;

  const uint32_t thread_id_;
  const uintptr_t stack_high_;
  int syscall_fd_;
  int status_fd_;
};

// The end of the calling thread's stack, whatever stack it is on at the moment: what it has of its
// own (thread control block) lies there, for the main thread the program's arguments.
uintptr_t own_stack_end();
// The calling thread's descriptors are its own from here on, and it has none: what it opens takes
// no number from the program, and what the program closes is not ours. False: the system cannot.
bool leave_descriptors();
// A filter may refuse system calls of this thread, or end the process for them.
bool system_calls_are_filtered();

}  // namespace llamalloc
