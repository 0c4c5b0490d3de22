// SPDX-License-Identifier: Apache-2.0
// What `llamalloc trace info` tells of a trace, from one pass over its events.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/event.h"
#include "trace_file/address_map.h"

namespace llamalloc::trace {

struct StackSummary {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t frees = 0;
  uint64_t lifetime_sum = 0;  // nanoseconds, of those freed
  uint64_t live_bytes = 0;
};

class TraceSummary {
 public:
  explicit TraceSummary(uint32_t stacks) : stacks_(stacks) {}
  void add(const Event& event);

  std::array<uint64_t, 3> events{};       // by EventKind
  std::array<uint64_t, 65> sizes{};       // objects by bit_width(size)
  std::array<uint64_t, 65> size_bytes{};  // bytes of them
  std::array<uint64_t, 65> lifetimes{};   // objects by bit_width(nanoseconds)
  uint64_t allocated_bytes = 0;
  uint64_t live_bytes = 0, live_objects = 0;
  uint64_t peak_bytes = 0, peak_objects = 0, peak_time = 0;  // peak_objects: at the peak of bytes
  uint64_t foreign_frees = 0;  // by another thread than the one that allocated
  uint64_t duration = 0;       // nanoseconds
  const std::vector<StackSummary>& stacks() const { return stacks_; }

 private:
  struct Live {
    uint64_t size;
    uint64_t time;
    uint32_t stack;
    uint32_t thread;
  };
  Live& live_of(uint64_t object);
  void change_live(uint64_t before, uint64_t after, uint64_t time);

  std::vector<StackSummary> stacks_;
  std::vector<Live> live_;
  std::vector<uint64_t> unused_;  // of live_
  AddressMap place_;              // from an object to its index in live_
};

// As JSON: the summary, the file's facts, and the stacks that allocated most.
class TraceReader;
std::string to_json(const TraceSummary& summary, const TraceReader& reader, size_t top_stacks);

}  // namespace llamalloc::trace
