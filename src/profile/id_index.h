// SPDX-License-Identifier: Apache-2.0
// Maps a hash to an id. The owner keeps the table of elements and compares them.
//
//   slots_  [ {hash, id + 1} | empty | ... ]   linear probing, at most 2/3 full, nothing removed
//
// Doubles by taking from the arena. The arrays that it leaves behind are at most as large in sum as
// the current one. Guarded by the owner's lock.
#pragma once

#include <cstdint>

#include "os/arena.h"

namespace llamalloc {

class IdIndex {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // The id inserted under this hash for which is_it(id) holds, or kNone.
  template <typename IsIt>
  uint32_t find(uint64_t hash, IsIt&& is_it) const {
    const uint32_t tag = tag_of(hash);
    for (uint32_t i = tag & mask(); capacity_ != 0 && slots_[i].id_plus_1 != 0;
         i = (i + 1) & mask())
      if (slots_[i].tag == tag && is_it(slots_[i].id_plus_1 - 1)) return slots_[i].id_plus_1 - 1;
    return kNone;
  }

  // Makes room for one more insert; false: no memory, and nothing changed.
  bool reserve_one(MetadataArena& arena) {
    if ((used_ + 1) * uint64_t{3} <= capacity_ * uint64_t{2}) return true;
    const uint32_t capacity = capacity_ == 0 ? 64 : capacity_ * 2;
    Slot* slots = capacity == 0 ? nullptr : arena.make_array<Slot>(capacity);
    if (slots == nullptr) return false;
    const IdIndex old = *this;
    slots_ = slots;
    capacity_ = capacity;
    for (uint32_t i = 0; i < old.capacity_; ++i)
      if (old.slots_[i].id_plus_1 != 0) place(old.slots_[i]);
    return true;
  }

  // After reserve_one(); the id is not in the index yet.
  void insert(uint64_t hash, uint32_t id) {
    place({tag_of(hash), id + 1});
    ++used_;
  }

 private:
  struct Slot {
    uint32_t tag;
    uint32_t id_plus_1;  // 0: empty
  };

  static uint32_t tag_of(uint64_t hash) {
    return static_cast<uint32_t>((hash * 0x9E3779B97F4A7C15ull) >> 32);
  }
  uint32_t mask() const { return capacity_ - 1; }
  void place(Slot slot) {
    uint32_t i = slot.tag & mask();
    while (slots_[i].id_plus_1 != 0) i = (i + 1) & mask();
    slots_[i] = slot;
  }

  Slot* slots_ = nullptr;
  uint32_t capacity_ = 0;  // 0 or a power of two
  uint32_t used_ = 0;
};

}  // namespace llamalloc
