// SPDX-License-Identifier: Apache-2.0
// An array that grows without moving: elements keep their address, readers need no lock.
//
//   chunks_  [ * | * | - | - ]          chunk = 2^shift elements from the arena, zeroed
//              |   +--> [ 4 5 6 _ ]
//              +------> [ 0 1 2 3 ]     (shift 2, size 7)
//
// One writer at a time (the owner's lock). A reader may use any index below size().
#pragma once

#include <atomic>
#include <cstdint>

#include "os/arena.h"

namespace llamalloc {

template <typename T, uint32_t kShift, uint32_t kChunks>
class ChunkedArray {
 public:
  static constexpr uint32_t kCapacity = kChunks << kShift;

  uint32_t size() const {
    // Pairs with the release in push().
    return size_.load(std::memory_order_acquire);
  }
  T& operator[](uint32_t i) { return chunks_[i >> kShift][i & kMask]; }
  const T& operator[](uint32_t i) const { return chunks_[i >> kShift][i & kMask]; }

  // False: full, or no memory.
  bool push(MetadataArena& arena, const T& value) {
    const uint32_t i = size_.load(std::memory_order_relaxed);
    if (i == kCapacity) return false;
    if (chunks_[i >> kShift] == nullptr) chunks_[i >> kShift] = arena.make_array<T>(kMask + 1);
    if (chunks_[i >> kShift] == nullptr) return false;
    chunks_[i >> kShift][i & kMask] = value;
    // Pairs with the acquire in size(): who sees the index sees the element and its chunk.
    size_.store(i + 1, std::memory_order_release);
    return true;
  }

 private:
  static constexpr uint32_t kMask = (uint32_t{1} << kShift) - 1;

  T* chunks_[kChunks] = {};  // an entry is written once, before size_ reaches it
  std::atomic<uint32_t> size_{0};
};

}  // namespace llamalloc
