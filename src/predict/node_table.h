// SPDX-License-Identifier: Apache-2.0
// What a model file's tables know of contexts: nodes of a tree over frames, as in context_tree.h,
// sorted by key and read where they lie. Never changed, so any thread may ask, without a lock.
//
//   key   64 bits of ContextPath      answer   [ deeper:1 | class:7 ], or kOpen: not decided
//
// About 15 steps over some hundred KiB: 0.1 us. A search needs no table of its own, and no choice
// of keys can make it slow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/lifetime_class.h"
#include "predict/context_tree.h"

namespace llamalloc {

class NodeTable {
 public:
  static constexpr uint8_t kDeeper = 0x80;
  static constexpr uint8_t kOpen = 0x7f;
  static constexpr size_t kNone = ~size_t{0};

  constexpr NodeTable() = default;
  // keys [count] ascend strictly; the answer of node i is answers[i * stride], of is_answer().
  constexpr NodeTable(const uint64_t* keys, const uint8_t* answers, size_t count, size_t stride)
      : keys_(keys), answers_(answers), count_(count), stride_(stride) {}

  static constexpr bool is_answer(uint8_t byte) {
    return byte == kOpen || byte == kDeeper || byte < kLifetimeClasses;
  }

  size_t size() const { return count_; }
  size_t index_of(uint64_t key) const {
    const uint64_t* const at = std::lower_bound(keys_, keys_ + count_, key);
    return at != keys_ + count_ && *at == key ? static_cast<size_t>(at - keys_) : kNone;
  }
  uint8_t answer(size_t i) const { return answers_[i * stride_]; }
  // One that is not decided counts as not found.
  ContextTree::Node find(uint64_t key) const {
    const size_t i = index_of(key);
    if (i == kNone || answer(i) == kOpen) return {};
    const auto lifetime = static_cast<LifetimeClass>(answer(i) & ~kDeeper);
    return {true, (answer(i) & kDeeper) != 0, lifetime};
  }

 private:
  const uint64_t* keys_ = nullptr;
  const uint8_t* answers_ = nullptr;
  size_t count_ = 0;
  size_t stride_ = 1;
};

}  // namespace llamalloc
