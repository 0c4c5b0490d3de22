// SPDX-License-Identifier: Apache-2.0
// Address space for direct mappings (objects above 1 MiB), in powers of two, reused by size. Counts
// their memory: whole 2 MiB pages as huge pages, the rest in 4 KiB pages.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "sim/page_ledger.h"

namespace llamalloc::sim {

class DirectSpace {
 public:
  static constexpr uint64_t kBytes = uint64_t{8} << 40;

  // Offset of `bytes` bytes, aligned to the next power of two; kNoAddress: the space is used up.
  uint64_t take(uint64_t bytes) {
    const uint64_t room = room_for(bytes);
    std::vector<uint64_t>& reusable = free_[std::countr_zero(room)];
    uint64_t offset = 0;
    if (!reusable.empty()) {
      offset = reusable.back();
      reusable.pop_back();
    } else {
      offset = align_up(cursor_, room);
      if (room > kBytes || offset + room > kDirectBase + kBytes) return kNoAddress;
      cursor_ = offset + room;
    }
    add(bytes);
    acquired_ += bytes / kHugePageSize;
    return offset;
  }
  void give(uint64_t offset, uint64_t bytes) {
    free_[std::countr_zero(room_for(bytes))].push_back(offset);
    remove(bytes);
  }
  // Whether a mapping can be resized in place from one size to the other.
  static bool same_room(uint64_t bytes, uint64_t other) {
    return room_for(bytes) == room_for(other);
  }
  void change(uint64_t bytes, uint64_t to) {
    remove(bytes);
    add(to);
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t huge_bytes() const { return huge_bytes_; }
  uint64_t acquired() const { return acquired_; }  // 2 MiB pages, counting every time
  static uint64_t backed(uint64_t bytes) { return align_up(bytes, kSmallPage); }

 private:
  static uint64_t room_for(uint64_t bytes) {
    return std::bit_ceil(bytes < kHugePageSize ? uint64_t{kHugePageSize} : bytes);
  }
  void add(uint64_t bytes) {
    bytes_ += backed(bytes);
    huge_bytes_ += align_down(bytes, kHugePageSize);
  }
  void remove(uint64_t bytes) {
    bytes_ -= backed(bytes);
    huge_bytes_ -= align_down(bytes, kHugePageSize);
  }

  uint64_t cursor_ = kDirectBase;
  uint64_t bytes_ = 0;
  uint64_t huge_bytes_ = 0;
  uint64_t acquired_ = 0;
  std::vector<uint64_t> free_[64];
};

}  // namespace llamalloc::sim
