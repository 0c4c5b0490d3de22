// SPDX-License-Identifier: Apache-2.0
// What llamalloc-replay does, step by step: a header and its steps, in a file of memory that
// llamalloc-simulate writes. So the replay needs neither the trace's reader nor the C++ library,
// which allocates as it starts: its heap begins as empty as that of a simulation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/event.h"

namespace llamalloc {

struct StepsHeader {
  uint64_t steps;
  uint64_t slots;
  uint64_t threads;
  uint64_t duration;
};

struct Step {
  uint64_t time;  // nanoseconds of the trace
  uint64_t size;
  uint32_t slot;  // in the table of objects
  uint16_t thread;
  trace::EventKind kind;
  uint8_t alignment_log2;
};
static_assert(sizeof(Step) == 24);
inline constexpr uint64_t kMostReplayThreads = UINT16_MAX + uint64_t{1};

struct Steps {
  const Step* steps = nullptr;
  size_t count = 0;
  size_t slots = 0;
  size_t threads = 0;
  uint64_t duration = 0;
};

// Ends the program with one line.
[[noreturn]] void stop_replay(int status, const char* what, const char* cure);

// Zeroed memory that is no allocator's, all of it resident.
void* resident_pages(size_t bytes);
template <typename T>
T* pages_for(size_t count) {
  return static_cast<T*>(resident_pages((count + 1) * sizeof(T)));
}

// Ends the program if the trace cannot be read; the reader has said why.
Steps load_steps(const char* trace);

}  // namespace llamalloc
