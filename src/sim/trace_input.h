// SPDX-License-Identifier: Apache-2.0
// A trace that can be read from the start any number of times, and the frame names of its stacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/event.h"

namespace llamalloc::sim {

class TraceInput {
 public:
  virtual ~TraceInput() = default;
  // From the first event on.
  virtual std::unique_ptr<trace::EventSource> open() = 0;
  // Names of the frames of a stack, innermost first; empty if it is unknown.
  virtual std::vector<std::string> frames(uint32_t stack) = 0;
  // After the end of a source: what was wrong with the file, or empty.
  virtual std::string fault() { return {}; }
};

}  // namespace llamalloc::sim
