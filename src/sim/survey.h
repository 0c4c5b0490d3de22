// SPDX-License-Identifier: Apache-2.0
// The first pass over a trace: checks it, and collects what the second pass must know in advance
// (lifetimes, contexts, peaks).
//
// A placement is an allocation, or a resize to another size bucket: a policy must choose an
// address. It lasts until the object is freed or placed again.
//   lifetimes, contexts: one for each placement, in the order of the trace
//   context: (stack, size bucket), numbered as they appear
// The curve of live bytes has a peak and drops. A drop is the moment when the live bytes have
// fallen by a quarter or more from their maximum since the drop before. It is measured shortly
// afterwards (settle_time in survey.cc).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "sim/trace_input.h"

namespace llamalloc::sim {

inline constexpr uint64_t kNeverFreed = ~uint64_t{0};
inline constexpr double kDropShare = 0.25;

struct Context {
  uint32_t stack;
  uint64_t size;  // bucket
};

struct Drop {
  uint64_t peak_time;
  uint64_t peak_live;
  uint64_t time;  // when it is measured
};

struct Survey {
  uint64_t events = 0;
  uint64_t objects = 0;
  uint64_t frees = 0;
  uint64_t resizes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t threads = 0;
  std::vector<uint64_t> thread_ends;  // by thread: the number of its last event, from 1
  uint64_t duration = 0;              // nanoseconds: time of the last event
  uint64_t peak_time = 0;
  uint64_t peak_live = 0;
  std::vector<uint64_t> lifetimes;  // nanoseconds; kNeverFreed
  std::vector<uint64_t> births;     // of placements that were never freed, in order
  std::vector<uint32_t> contexts;
  std::vector<Context> context_table;
  std::vector<Drop> drops;
};

// Assigns each live object a slot in a dense table; slots are reused.
class SlotTable {
 public:
  static constexpr uint32_t kNone = ~0u;
  uint32_t add() {
    uint32_t slot = next_;
    if (free_.empty()) {
      ++next_;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_.push_back(slot);
    return slot;
  }
  // kNone: unknown, or freed.
  uint32_t find(uint64_t object) const { return object < slots_.size() ? slots_[object] : kNone; }
  void remove(uint64_t object) {
    free_.push_back(slots_[object]);
    slots_[object] = kNone;
  }
  uint64_t objects() const { return slots_.size(); }
  uint32_t room() const { return next_; }  // slots ever used at once

 private:
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> free_;
  uint32_t next_ = 0;
};

// Finds the number of a context; caches the last size bucket of each stack.
class ContextIndex {
 public:
  uint32_t find(uint32_t stack, uint64_t bucket, std::vector<Context>& table);

 private:
  struct Last {
    uint64_t bucket = 0;
    uint32_t context = 0;
  };
  std::vector<Last> last_;  // by stack
  std::unordered_map<uint64_t, uint32_t> index_;
};

// Reads the trace to its end. False: `error` says which event is wrong, and how.
bool survey_trace(TraceInput& input, Survey* survey, std::string* error);

// The size that a policy is asked for: an object of zero bytes takes one.
constexpr uint64_t asked(uint64_t size) {
  return size ? size : 1;
}

// Whether a resize from one size to another is a placement of its own.
bool is_new_placement(uint64_t old_size, uint64_t size);

}  // namespace llamalloc::sim
