// SPDX-License-Identifier: Apache-2.0
// What llamalloc-replay does, step by step, in memory that is no allocator's.
//
// Another process reads the trace, so that the allocator under test sees the trace's calls and
// nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/event.h"

namespace llamalloc {

struct Step {
  uint64_t time;  // nanoseconds of the trace
  uint64_t size;
  uint32_t slot;  // in the table of objects
  uint16_t thread;
  trace::EventKind kind;
  uint8_t alignment_log2;
};
static_assert(sizeof(Step) == 24);

struct Steps {
  const Step* steps = nullptr;
  size_t count = 0;
  size_t slots = 0;
  size_t threads = 0;
  uint64_t duration = 0;
};

// Ends the program with one line.
[[noreturn]] void stop_replay(int status, const char* what, const char* cure);

// Zeroed memory, all of it resident.
void* resident_pages(size_t bytes);
template <typename T>
T* pages_for(size_t count) {
  return static_cast<T*>(resident_pages((count + 1) * sizeof(T)));
}

Steps load_steps(const std::string& trace);

}  // namespace llamalloc
