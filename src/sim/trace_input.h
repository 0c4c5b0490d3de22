// SPDX-License-Identifier: Apache-2.0
// A trace that can be read from the start any number of times, and the frame names of its stacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/code_key.h"
#include "trace/event.h"

namespace llamalloc::sim {

struct CodeFrame {
  uintptr_t address = 1;  // where a call returns to; below 2^47
  uint64_t code = 0;      // StackTrace::codes
};

// The main program of a trace (learning/learned_state.h, LearnedProgram).
struct TraceProgram {
  uint64_t build = 0;
  std::string name = "trace";
};

class TraceInput {
 public:
  virtual ~TraceInput() = default;
  // From the first event on.
  virtual std::unique_ptr<trace::EventSource> open() = 0;
  // Names of the frames of a stack, innermost first; empty if it is unknown.
  virtual std::vector<std::string> frames(uint32_t stack) = 0;
  // The same frames as places in code; here made of the names.
  virtual std::vector<CodeFrame> code(uint32_t stack) {
    std::vector<CodeFrame> places;
    for (const std::string& name : frames(stack)) places.push_back(place_of(name));
    return places;
  }
  virtual TraceProgram program() { return {}; }
  // After the end of a source: what was wrong with the file, or empty.
  virtual std::string fault() { return {}; }
  // False: the program was killed, or the file was cut off, and the last events may be missing.
  virtual bool ended_in_order() { return true; }

 protected:
  // Of code that was never built: the same for the same name.
  static CodeFrame place_of(const std::string& name) {
    const uint64_t hash = hash_build_id(reinterpret_cast<const uint8_t*>(name.data()), name.size());
    const uint64_t code = code_key(hash, 0);
    return {static_cast<uintptr_t>(code >> 17), code};
  }
};

}  // namespace llamalloc::sim
