// SPDX-License-Identifier: Apache-2.0
// What is known of contexts, as a tree over their frames, innermost first: what an allocation of a
// context that the prediction cache has not seen asks, in its own thread, without a lock.
//
//   the site      decided: every object of this call lives that long
//     its size    decided, where the sizes of one call differ
//       caller    decided, where its callers differ
//         ...     and so on, as deep as it takes to tell the lifetimes apart
//
//   slot = [ tag: 56 bits of the node's key | deeper:1 | class:7 ]
//
// Of two tables one is read while the worker fills the other; a reader that is late sees an old
// table, or a new entry in it. Keys are made of StackTrace::codes, so that they hold for each
// process of a build.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hash.h"
#include "base/lifetime_class.h"
#include "base/stack_trace.h"
#include "os/arena.h"

namespace llamalloc {

// The key of each node on the way of a context: level 1: the site, 2: and the size bucket, 3 and
// more: and callers (contracts/learned_state.md, Keys).
class ContextPath {
 public:
  static constexpr uint64_t kRoot = 0x6c6c616d616c6c6f;  // above the first level
  static constexpr uint64_t extend(uint64_t key, uint64_t word) { return mix(key, word); }

  ContextPath(uint64_t site_code, uint64_t size_bucket)
      : bucket_(size_bucket), key_(extend(kRoot, site_code)) {}

  int level() const { return level_; }
  uint64_t key() const { return key_; }
  // Which frame the next level adds; 0: none, but the size.
  int next_frame() const { return level_ - 1; }
  void descend(uint64_t code) {
    key_ = extend(key_, level_ == 1 ? bucket_ : code);
    ++level_;
  }

 private:
  uint64_t bucket_;
  uint64_t key_;
  int level_ = 1;
};

class ContextTree {
 public:
  static constexpr int kShift = 15;
  static constexpr size_t kMostSlots = size_t{1} << kShift;
  static constexpr size_t kMostNodes = kMostSlots / 4 * 3;

  struct Node {
    bool found = false;
    bool deeper = false;  // its contexts differ: ask for the next level
    LifetimeClass lifetime = LifetimeClass::mixed;
  };

  // False: no memory.
  bool open(MetadataArena& arena);
  bool is_open() const { return table_.load(std::memory_order_relaxed) != nullptr; }

  Node find(uint64_t key) const;

  // By the worker: a new table for so many nodes, to be filled by add and shown by publish. add:
  // false: full.
  void begin(size_t nodes = kMostNodes);
  bool add(uint64_t key, bool deeper, LifetimeClass lifetime);
  void publish();

 private:
  using Slot = std::atomic<uint64_t>;
  static constexpr uint64_t kTag = ~uint64_t{0xff};
  static constexpr uint64_t kDeeper = 0x80;

  static uint64_t tag_of(uint64_t key) { return (key & kTag) | uint64_t{1} << 63; }

  // Of two: the one that is read. In front of the slots: their number less one, a power of two less
  // one, so that a small tree takes few pages.
  std::atomic<Slot*> table_{nullptr};
  Slot* next_ = nullptr;
  size_t filled_ = 0;
  size_t room_ = 0;
};

}  // namespace llamalloc
