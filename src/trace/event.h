// SPDX-License-Identifier: Apache-2.0
// What happens to objects, in the order in which it happened, with threads and addresses resolved:
// what a trace reads back as, what a generator makes, and what a simulation consumes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace llamalloc::trace {

enum class EventKind : uint8_t { allocate, resize, free };

struct Event {
  uint64_t time;    // nanoseconds since the trace began; never falls
  uint64_t object;  // allocate: the next number, from 0 on, never reused; else whose event it is
  uint64_t size;    // bytes asked for; free: 0
  uint32_t stack;   // of the allocation, or of the realloc: index into the trace's stacks; free: 0
  uint32_t thread;  // from 0 in order of appearance
  EventKind kind;
  uint8_t alignment_log2;  // what was asked for: 4 for plain malloc
};

class EventSource {
 public:
  virtual ~EventSource() = default;
  // Fills the front of `events`; how many; 0: the end.
  virtual size_t read(std::span<Event> events) = 0;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void write(std::span<const Event> events) = 0;
};

}  // namespace llamalloc::trace
