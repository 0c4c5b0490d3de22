// SPDX-License-Identifier: Apache-2.0
// Contexts on their way from an allocating thread to the worker: a copy of the stack each, so that
// the caller neither unwinds nor waits. Any number of producers, one consumer.
//
//   free --(producer: exchange)--> filling --> ready --(consumer)--> free
//
// A full queue drops the context: its key stays unseen and is asked for again at its next use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/arena.h"
#include "os/unwind.h"

namespace llamalloc {

struct Miss {
  static constexpr size_t kStackBytes = 24 * 1024;

  std::atomic<uint32_t> state;
  bool recheck;
  uint64_t key;
  uint64_t site_key;
  size_t size;
  StackSnapshot snapshot;
  char stack[kStackBytes];
};

class MissQueue {
 public:
  static constexpr uint32_t kMisses = 64;

  bool open(MetadataArena& arena) {
    if (misses_ == nullptr) misses_ = arena.make_array<Miss>(kMisses);
    return misses_ != nullptr;
  }

  // A place to fill in, or null when all are taken; then submit() it. A recheck can wait for
  // another turn, so it only looks at a few places and leaves room for first-seen contexts.
  Miss* reserve(bool recheck) {
    if (misses_ == nullptr) return nullptr;
    const uint32_t start = turn_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t i = 0; i < (recheck ? 2 : kMisses); ++i) {
      Miss& miss = misses_[(start + i) % kMisses];
      uint32_t expected = kFree;
      // Pairs with the release in finish(): what the consumer read is no longer needed.
      if (miss.state.compare_exchange_strong(expected, kFilling, std::memory_order_acquire))
        return &miss;
    }
    return nullptr;
  }
  // Pairs with the acquire in for_each_ready().
  void submit(Miss* miss) { miss->state.store(kReady, std::memory_order_release); }

  // f(Miss&) for each that is ready; the place is free afterwards. Returns how many.
  template <typename F>
  int for_each_ready(F&& f) {
    int done = 0;
    for (uint32_t i = 0; misses_ != nullptr && i < kMisses; ++i) {
      if (misses_[i].state.load(std::memory_order_acquire) != kReady) continue;
      f(misses_[i]);
      misses_[i].state.store(kFree, std::memory_order_release);
      ++done;
    }
    return done;
  }

  // After fork: what other threads were filling will never be ready.
  void clear() {
    for (uint32_t i = 0; misses_ != nullptr && i < kMisses; ++i)
      misses_[i].state.store(kFree, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kFree = 0, kFilling = 1, kReady = 2;
  Miss* misses_ = nullptr;
  std::atomic<uint32_t> turn_{0};
};

}  // namespace llamalloc
