// SPDX-License-Identifier: Apache-2.0
// The bounds of the calling thread's own stack. It stays mapped as long as the thread lives, so it
// is safe to read. Other stacks (of a fiber or a signal handler) are unknown; on those it is only
// safe to read the rest of a page that is in use.
//
//   low ......... sp ........ high      other threads: from above the guard to the control block
//                                       main thread: high is the end of the stack; low decreases
//
// No lock and no allocation: callable inside malloc and in signal handlers.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace llamalloc {

// Invariant: low <= high, and [low, high) stays readable while the thread lives.
struct StackBounds {
  uintptr_t low = 0;
  uintptr_t high = 0;

  bool contains(uintptr_t sp) const { return sp - low < high - low; }
  // How far what lies above a stack pointer may be read. On another stack, such as a coroutine's,
  // to the end of the page. The one right below the stack pointer is mapped: a call has just
  // returned from there.
  uintptr_t readable_limit(uintptr_t sp) const {
    return contains(sp) ? high : align_up(sp, kSmallPage);
  }
};

// The bounds that are already known, in a few loads. high never changes during the life of the
// thread. If the C library's records have an unknown layout, the result is empty: low == high.
StackBounds own_stack();
// The same, but first updates the bounds of the main thread's stack, which grows, down to sp.
StackBounds own_stack_down_to(uintptr_t sp);

// The end of the main thread's stack, where the program's arguments lie.
uintptr_t main_stack_end();

}  // namespace llamalloc
