// SPDX-License-Identifier: Apache-2.0
#include "predict/context_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace llamalloc {

bool ContextTree::open(MetadataArena& arena) {
  if (is_open()) return true;
  Slot* const first = arena.make_array<Slot>(kMostSlots + 1);
  next_ = arena.make_array<Slot>(kMostSlots + 1);
  if (first == nullptr || next_ == nullptr) return false;
  table_.store(first, std::memory_order_release);
  return true;
}

ContextTree::Node ContextTree::find(uint64_t key) const {
  const Slot* const table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  const uint64_t tag = tag_of(key), mask = table[0].load(std::memory_order_relaxed);
  for (uint64_t i = key >> 8 & mask, probes = 0; probes <= mask; ++probes) {
    const uint64_t slot = table[1 + i].load(std::memory_order_relaxed);
    if (slot == 0) break;
    if ((slot & kTag) == tag)
      return {true, (slot & kDeeper) != 0, static_cast<LifetimeClass>(slot & 0x7f)};
    i = (i + 1) & mask;
  }
  return {};
}

void ContextTree::begin(size_t nodes) {
  const uint64_t before = next_[0].load(std::memory_order_relaxed);
  for (uint64_t i = 0; i <= before; ++i) next_[1 + i].store(0, std::memory_order_relaxed);
  const size_t most = nodes < kMostNodes ? nodes : kMostNodes;
  const size_t slots = std::min(std::bit_ceil(most + most / 3 + 1), kMostSlots);
  DCHECK(most < slots);
  next_[0].store(slots - 1, std::memory_order_relaxed);
  filled_ = 0;
  room_ = most;
}

bool ContextTree::add(uint64_t key, bool deeper, LifetimeClass lifetime) {
  if (filled_ == room_) return false;
  const uint64_t mask = next_[0].load(std::memory_order_relaxed);
  uint64_t i = key >> 8 & mask;
  while (next_[1 + i].load(std::memory_order_relaxed) != 0) i = (i + 1) & mask;
  next_[1 + i].store(tag_of(key) | (deeper ? kDeeper : 0) | static_cast<uint64_t>(lifetime),
                     std::memory_order_relaxed);
  ++filled_;
  return true;
}

void ContextTree::publish() {
  next_ = table_.exchange(next_, std::memory_order_acq_rel);
  filled_ = room_;  // of the table that was read: begin() clears it
}

}  // namespace llamalloc
