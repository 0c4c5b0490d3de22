// SPDX-License-Identifier: Apache-2.0
// For tests: our trace and the compiler runtime's, taken at the same place and compared.
#pragma once

#include <gtest/gtest.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>

#include "os/unwind.h"

namespace llamalloc {

struct Reference {
  int depth = 0;
  uintptr_t frames[4096];
};

inline _Unwind_Reason_Code record_frame(_Unwind_Context* context, void* argument) {
  Reference& reference = *static_cast<Reference*>(argument);
  const uintptr_t pc = _Unwind_GetIP(context);
  if (reference.depth == 4096 || pc == 0) return _URC_END_OF_STACK;  // 0 follows the outermost
  reference.frames[reference.depth++] = pc;
  return _URC_NO_REASON;
}

struct Agreement {
  std::atomic<int> captures{0};
  std::atomic<int> wrong{0};      // neither equal nor a truncated prefix
  std::atomic<int> truncated{0};  // before 64 frames
  std::atomic<int> deepest{0};
};
inline Agreement agreement;

inline void compare(const StackTrace& trace, const Reference& reference, int from) {
  bool same = trace.depth <= reference.depth;
  for (int i = from; same && i < trace.depth; ++i) same = trace.frames[i] == reference.frames[i];
  if (!trace.truncated) same = same && trace.depth == reference.depth;
  agreement.captures.fetch_add(1, std::memory_order_relaxed);
  if (trace.depth > agreement.deepest) agreement.deepest = trace.depth;
  if (trace.truncated && trace.depth < kMaxFrames) agreement.truncated.fetch_add(1);
  if (same) return;
  agreement.wrong.fetch_add(1);
  if (agreement.wrong > 3) return;
  for (int i = 0; i < trace.depth || (i < reference.depth && i < kMaxFrames); ++i)
    printf("%2d ours %16lx reference %16lx\n", i, i < trace.depth ? trace.frames[i] : 0,
           i < reference.depth ? reference.frames[i] : 0);
}

// Takes both traces of the caller and compares them.
[[gnu::noinline]] inline void check_here() {
  static thread_local Reference reference;
  StackTrace trace;
  const Registers here = capture_registers();
  unwind(here, current_stack_window(here.sp), &trace);
  reference.depth = 0;
  _Unwind_Backtrace(record_frame, &reference);
  compare(trace, reference, 1);
}

}  // namespace llamalloc
