// SPDX-License-Identifier: Apache-2.0
// A part of a trace as a trace: objects that live when it begins are allocated at its beginning, in
// the order in which they were; only stacks that it needs come along.
#pragma once

#include <cstdint>
#include <string>

#include "trace_file/trace_reader.h"

namespace llamalloc::trace {

struct Window {
  uint64_t from = 0;                   // nanoseconds
  uint64_t to = ~uint64_t{0};          // nanoseconds, exclusive
  uint64_t max_events = ~uint64_t{0};  // of the result
  bool is_whole() const { return from == 0 && ~to == 0 && ~max_events == 0; }
};

// False, with the error. The whole window keeps stack numbers as they are.
bool cut(TraceReader& reader, const Window& window, const std::string& output, int level,
         std::string* error);

}  // namespace llamalloc::trace
