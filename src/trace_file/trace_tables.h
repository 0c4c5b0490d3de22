// SPDX-License-Identifier: Apache-2.0
// What the events of a trace refer to by number: stacks of frames of modules.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace llamalloc::trace {

struct Module {
  std::string path;
  std::string build_id;  // hexadecimal; empty: none
  uint64_t start = 0;    // where the code lay, whole pages
  uint64_t limit = 0;
  uint64_t file_offset = 0;  // of start, in bytes
};

struct Frame {
  static constexpr uint32_t kNoModule = ~uint32_t{0};
  uint64_t address = 0;  // the return address
  uint32_t module = kNoModule;
  std::string name;  // as contracts/stack_tokens.md has it; empty: was never named
};

// Stack 0 is the empty one: of events whose stack is not known.
class Stacks {
 public:
  uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  // Frame numbers, the allocation site's first.
  std::span<const uint32_t> operator[](uint32_t stack) const {
    const uint64_t begin = stack == 0 ? 0 : ends_[stack - 1];
    return {frames_.data() + begin, static_cast<size_t>(ends_[stack] - begin)};
  }
  uint32_t add(std::span<const uint32_t> frames) {
    frames_.insert(frames_.end(), frames.begin(), frames.end());
    ends_.push_back(frames_.size());
    return size() - 1;
  }

 private:
  std::vector<uint32_t> frames_;
  std::vector<uint64_t> ends_ = {0};
};

struct Tables {
  Stacks stacks;
  std::vector<Frame> frames;
  std::vector<Module> modules;
};

}  // namespace llamalloc::trace
