// SPDX-License-Identifier: Apache-2.0
#include "predict/prediction_cache.h"

namespace llamalloc {

// The slot of the key if it has one, else the first free one, else the one that a bit of the key
// names.
bool PredictionCache::write(uint64_t key, uint64_t value, bool overwrite) {
  const size_t set = set_of(key);
  size_t victim = set + (key >> kShift & 1);
  for (size_t way : {1, 0}) {
    const uint64_t slot = slots_[set + way].load(std::memory_order_relaxed);
    if (((slot ^ key) & kTag) == 0) {
      if (!overwrite) return false;
      victim = set + way;
      break;
    }
    if (slot == 0) victim = set + way;
  }
  uint64_t expected = slots_[victim].load(std::memory_order_relaxed);
  if (!overwrite && ((expected ^ key) & kTag) == 0) return false;
  // Nothing else is published with the slot, so no order is needed.
  return slots_[victim].compare_exchange_strong(expected, value, std::memory_order_relaxed) ||
         overwrite;
}

// Paths first: whoever allocates meanwhile publishes a path once, with its key. A path that went
// after its key had come back would be looked up by height until the next time.
void PredictionCache::clear() {
  decided.clear();
  std::atomic_thread_fence(std::memory_order_release);
  for (auto& slot : slots_)
    if (slot.load(std::memory_order_relaxed) != 0) slot.store(0, std::memory_order_relaxed);
}

void PredictionCache::forget(uint64_t key) {
  for (size_t way = 0; way < 2; ++way) {
    auto& slot = slots_[set_of(key) + way];
    uint64_t value = slot.load(std::memory_order_relaxed);
    if (((value ^ key) & kTag) == 0)
      slot.compare_exchange_strong(value, 0, std::memory_order_relaxed);
  }
}

size_t PredictionCache::forget_marked(uint8_t marks) {
  size_t forgotten = 0;
  for (auto& slot : slots_) {
    uint64_t value = slot.load(std::memory_order_relaxed);
    if ((value & uint64_t{marks} << kMarksShift) == 0) continue;
    forgotten += slot.compare_exchange_strong(value, 0, std::memory_order_relaxed);
  }
  return forgotten;
}

}  // namespace llamalloc
