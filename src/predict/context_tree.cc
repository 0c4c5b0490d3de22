// SPDX-License-Identifier: Apache-2.0
#include "predict/context_tree.h"

#include <new>

namespace llamalloc {
namespace {

constexpr size_t kSlots = size_t{1} << ContextTree::kShift;

}  // namespace

bool ContextTree::open(MetadataArena& arena) {
  if (is_open()) return true;
  Slot* const first = arena.make_array<Slot>(kSlots);
  next_ = arena.make_array<Slot>(kSlots);
  if (first == nullptr || next_ == nullptr) return false;
  table_.store(first, std::memory_order_release);
  return true;
}

ContextTree::Node ContextTree::find(uint64_t key) const {
  const Slot* const table = table_.load(std::memory_order_acquire);
  const uint64_t tag = tag_of(key);
  for (size_t i = home(key), probes = 0; table != nullptr && probes < kSlots; ++probes) {
    const uint64_t slot = table[i].load(std::memory_order_relaxed);
    if (slot == 0) break;
    if ((slot & kTag) == tag)
      return {true, (slot & kDeeper) != 0, static_cast<LifetimeClass>(slot & 0x7f)};
    i = (i + 1) % kSlots;
  }
  return {};
}

void ContextTree::begin() {
  for (size_t i = 0; filled_ != 0 && i < kSlots; ++i) next_[i].store(0, std::memory_order_relaxed);
  filled_ = 0;
}

bool ContextTree::add(uint64_t key, bool deeper, LifetimeClass lifetime) {
  if (filled_ == kMostNodes) return false;
  size_t i = home(key);
  while (next_[i].load(std::memory_order_relaxed) != 0) i = (i + 1) % kSlots;
  next_[i].store(tag_of(key) | (deeper ? kDeeper : 0) | static_cast<uint64_t>(lifetime),
                 std::memory_order_relaxed);
  ++filled_;
  return true;
}

void ContextTree::publish() {
  next_ = table_.exchange(next_, std::memory_order_acq_rel);
  filled_ = kMostNodes;  // of the table that was read: begin() clears it
}

}  // namespace llamalloc
