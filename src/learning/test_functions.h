// SPDX-License-Identifier: Apache-2.0
// For tests: functions of loaded modules by a table.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/code_key.h"
#include "learning/learned_frames.h"

namespace llamalloc {

inline constexpr uint64_t kOld = 11, kNew = 22;  // builds

// One module. A function's shape is its look and those of its neighbours.
class TestFunctions final : public LoadedFunctions {
 public:
  static constexpr uint64_t kBytes = 0x100;  // from one function to the next

  explicit TestFunctions(uint64_t build, std::vector<uint64_t> looks)
      : build_(build), looks_(std::move(looks)) {}

  LoadedFunction function(size_t i) const {
    const uint64_t begin = i * kBytes;
    return {{looks_[i], beside(i, -1), beside(i, +1)}, build_, begin, base_ + begin};
  }
  // What the functions call there.
  void calls(size_t i, std::vector<std::pair<uint32_t, uint32_t>> offsets_and_callees) {
    calls_.resize(looks_.size());
    calls_[i] = std::move(offsets_and_callees);
  }
  uintptr_t address(size_t i, uint32_t offset) const { return base_ + i * kBytes + offset; }
  uint64_t code(size_t i, uint32_t offset) const { return code_key(build_, i * kBytes + offset); }

  void visit_all(Visitor& visitor) override {
    for (size_t i = 0; i < looks_.size(); ++i) visitor.visit(function(i));
  }
  uint32_t find_call(uintptr_t address, const CallShape& call, uint32_t* offsets) override {
    const size_t i = (address - base_) / kBytes;
    if (call.count == 0 || i >= calls_.size()) return 0;
    std::vector<uint32_t> found;
    for (const auto& [offset, callee] : calls_[i])
      if (callee == call.callee) found.push_back(offset);
    if (found.empty()) return 0;
    if (found.size() == call.count) return offsets[0] = found[call.ordinal], 1;
    if (call.count > 1 || found.size() > CallShape::kMostPlaces) return 0;
    std::copy(found.begin(), found.end(), offsets);
    return static_cast<uint32_t>(found.size());
  }
  int looks = 0;
  bool look_at(uintptr_t return_address, CodeShape* out) override {
    ++looks;
    const size_t i = (return_address - base_) / kBytes;
    if (return_address < base_ || i >= looks_.size()) return false;
    out->offset = static_cast<uint32_t>((return_address - base_) % kBytes);
    out->function = function(i).shape;
    out->build = static_cast<uint32_t>(build_);
    out->code = code(i, out->offset);
    out->call = {};
    if (i >= calls_.size()) return true;
    for (const auto& [offset, callee] : calls_[i])
      if (offset == out->offset) out->call.callee = callee;
    for (const auto& [offset, callee] : calls_[i]) {
      if (callee != out->call.callee) continue;
      out->call.ordinal = static_cast<uint16_t>(out->call.ordinal + (offset < out->offset));
      ++out->call.count;
    }
    return true;
  }
  LearnedFrame frame(size_t i, uint32_t offset) {
    CodeShape shape;
    look_at(address(i, offset), &shape);
    return {shape.code, shape.function, shape.call, shape.offset, shape.build};
  }

 private:
  // The next one that looks other, and how far it is.
  uint32_t beside(size_t i, int step) const {
    uint32_t distance = 0;
    size_t k = i + static_cast<size_t>(step);
    for (; k < looks_.size() && looks_[k] == looks_[i]; k += static_cast<size_t>(step)) ++distance;
    return static_cast<uint32_t>((k < looks_.size() ? looks_[k] : 0) * 1000 + distance);
  }

  static constexpr uintptr_t base_ = 0x10000;
  uint64_t build_;
  std::vector<uint64_t> looks_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> calls_;
};

}  // namespace llamalloc
