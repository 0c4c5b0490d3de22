// SPDX-License-Identifier: Apache-2.0
// What one thread records into: a chunk being filled, and the stacks it met lately.
//
// Only its thread touches a log, but for the end of the process: then `closed` is set, every
// processor is made to see it, and a log that is not busy is written out by whoever ends it.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"
#include "os/arena.h"
#include "trace/chunk_builder.h"

namespace llamalloc {

// From the hash of a stack to its number. Two stacks of one hash among 10 million: odds of 1e-5.
class StackCache {
 public:
  // 0: not here.
  uint32_t find(uint64_t hash) const {
    const Entry& entry = entries_[hash & (kEntries - 1)];
    return entry.hash == hash ? entry.stack : 0;
  }
  void put(uint64_t hash, uint32_t stack) { entries_[hash & (kEntries - 1)] = {hash, stack}; }

 private:
  static constexpr uint64_t kEntries = 1024;
  struct Entry {
    uint64_t hash;
    uint32_t stack;
  };
  Entry entries_[kEntries];
};

struct alignas(kCacheLine) ThreadLog {
  static constexpr size_t kRoom = 64 * 1024;
  // What `busy` says. A signal handler in a thread that changes its chunk finds it half changed.
  static constexpr uint32_t kIdle = 0, kInside = 1, kChanging = 2;

  std::atomic<uint32_t> busy;  // not idle: the thread is inside; also keeps us out of ourselves
  uint32_t thread;
  bool in_use;
  trace::ChunkBuilder chunk;
  ThreadLog* next;  // all logs ever made
  StackCache cache;
  uint8_t memory[kRoom];
};

}  // namespace llamalloc
