// SPDX-License-Identifier: Apache-2.0
// The stacks of a trace as an allocation in a process sees them: words in memory that the
// prediction cache's key is read from (predict/prediction_cache.h), and what the unwinder finds
// there. So keys of contexts are made by the same code as in a process.
//
//   words  [ . . . ret(1) ][ . ret(2) ][ ...            a frame's size is made of its address: the
//          ^ stack pointer at frame 0                   same in each stack, as that of most
//          functions
//
// A trace does not hold the sizes of frames; so frames whose size varies (alloca) are not
// simulated.
#pragma once

#include <memory>
#include <vector>

#include "base/stack_trace.h"
#include "os/own_stack.h"
#include "predict/prediction_cache.h"
#include "sim/trace_input.h"

namespace llamalloc::sim {

class TraceStacks {
 public:
  explicit TraceStacks(TraceInput& input) : input_(input) {}

  StackBounds bounds(uint32_t stack);
  CallSite site(uint32_t stack);
  // StackTrace::codes of the site.
  uint64_t code(uint32_t stack);
  void unwind(uint32_t stack, StackTrace* out);

 private:
  struct Image {
    std::vector<CodeFrame> frames;  // at least one
    std::vector<uintptr_t> words;
  };
  Image& image_of(uint32_t stack);

  TraceInput& input_;
  std::vector<std::unique_ptr<Image>> images_;  // by stack, made when first asked for
};

}  // namespace llamalloc::sim
