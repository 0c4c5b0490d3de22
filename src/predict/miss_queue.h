// SPDX-License-Identifier: Apache-2.0
// Passes contexts from allocating threads to the worker, each with a copy of its stack. So the
// caller neither unwinds nor waits. Any number of producers, one consumer.
//
//   free --(producer: exchange)--> filling --> ready --(consumer)--> free
//
// A full queue drops the context. Its key stays unknown, so its next use is a miss again, except
// under a filter of system calls, where nobody answers.
// Producers take the first free entry, so the last entries are used only under high load. rest()
// returns their memory afterwards.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/arena.h"
#include "os/pages.h"
#include "os/unwind.h"

namespace llamalloc {

struct Miss {
  static constexpr size_t kStackBytes = 24 * 1024;

  std::atomic<uint32_t> state;
  uint8_t warmth;  // 0: the stack buffer has no memory
  bool recheck;
  uint64_t key;
  uint64_t site_key;
  size_t size;
  StackSnapshot snapshot;
  char* stack;  // kStackBytes
};

class MissQueue {
 public:
  static constexpr uint32_t kMisses = 64;
  static constexpr uint32_t kRecheckPlaces = 2;

  bool open(MetadataArena& arena) {
    if (misses_ != nullptr) return true;
    Miss* misses = arena.make_array<Miss>(kMisses);
    char* stacks = static_cast<char*>(arena.allocate(kMisses * Miss::kStackBytes, kSmallPage));
    if (misses == nullptr || stacks == nullptr) return false;
    for (uint32_t i = 0; i < kMisses; ++i) misses[i].stack = stacks + i * Miss::kStackBytes;
    misses_ = misses;
    return true;
  }

  // An entry to fill in and submit(), or null if all are taken. A recheck can wait, so it only
  // tries a few entries and leaves the others for new contexts.
  Miss* reserve(bool recheck) {
    for (uint32_t i = 0; misses_ != nullptr && i < (recheck ? kRecheckPlaces : kMisses); ++i) {
      if (!take(misses_[i])) continue;
      misses_[i].warmth = kWarm;
      return &misses_[i];
    }
    return nullptr;
  }
  // Pairs with the acquire in for_each_ready().
  void submit(Miss* miss) { miss->state.store(kReady, std::memory_order_release); }

  // Calls f(Miss&) for each ready entry, then frees the entry. Returns how many.
  template <typename F>
  int for_each_ready(F&& f) {
    int done = 0;
    for (uint32_t i = 0; misses_ != nullptr && i < kMisses; ++i) {
      if (misses_[i].state.load(std::memory_order_acquire) != kReady) continue;
      f(misses_[i]);
      finish(misses_[i]);
      ++done;
    }
    return done;
  }

  // Called by the consumer now and then: if an entry was not used since the call before the last,
  // returns its memory to the system.
  void rest(PageSource& system) {
    for (uint32_t i = 0; misses_ != nullptr && i < kMisses; ++i) {
      Miss& miss = misses_[i];
      if (!take(miss)) continue;
      if (miss.warmth != 0 && --miss.warmth == 0) system.discard(miss.stack, Miss::kStackBytes);
      finish(miss);
    }
  }

  // After fork: what other threads were filling will never be ready.
  void clear() {
    for (uint32_t i = 0; misses_ != nullptr && i < kMisses; ++i)
      misses_[i].state.store(kFree, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kFree = 0, kFilling = 1, kReady = 2;
  static constexpr uint8_t kWarm = 2;  // calls of rest() until it is cold
  static_assert(Miss::kStackBytes % kSmallPage == 0);

  // Pairs with the release in finish(): the previous user of the entry has finished.
  static bool take(Miss& miss) {
    uint32_t expected = kFree;
    return miss.state.load(std::memory_order_relaxed) == kFree &&
           miss.state.compare_exchange_strong(expected, kFilling, std::memory_order_acquire);
  }
  static void finish(Miss& miss) { miss.state.store(kFree, std::memory_order_release); }

  Miss* misses_ = nullptr;
};

}  // namespace llamalloc
