// SPDX-License-Identifier: Apache-2.0
// Where the calling thread's own stack lies: what may be read there because it is there as long as
// the thread is. Every other stack (of a fiber, of a signal handler) is not known; of those only
// the rest of a page that is in use may be read.
//
//   low ......... sp ........ high      other threads: from above the guard to the control block
//                                       main thread: high is the end of the stack; low sinks
//
// No lock and no allocation: callable inside malloc and in signal handlers.
#pragma once

#include <cstdint>

namespace llamalloc {

// Invariant: low <= high, and [low, high) stays readable while the thread lives.
struct StackBounds {
  uintptr_t low = 0;
  uintptr_t high = 0;

  bool contains(uintptr_t sp) const { return sp - low < high - low; }
};

// What is known already, by a few loads. high is the same for the whole life of the thread. Where
// the C library's records are not as we know them, the stack is empty: low == high.
StackBounds own_stack();
// The same once the main thread's stack, which grows, was looked at down to sp.
StackBounds own_stack_down_to(uintptr_t sp);

// The end of the main thread's stack, where the program's arguments lie.
uintptr_t main_stack_end();

}  // namespace llamalloc
