// SPDX-License-Identifier: Apache-2.0
// From a call site that decides alone, whoever calls it, to where its objects go: what the fast
// path asks first. It needs neither the stack's height nor the table of wrappers.
//
//   slot = [ tag: 48 bits of the key | place:16 ]     key = hash of (return address, shape)
//
// Direct-mapped, 32 KiB, one atomic word a slot: any thread may write, all read. shape and place
// mean what their users make of them (policy/placement.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace llamalloc {

class SiteCache {
 public:
  // True: *place is what was published for the site and shape.
  bool find(uintptr_t return_address, size_t shape, uint16_t* place) const {
    const uint64_t key = key_of(return_address, shape);
    const uint64_t slot = slots_[key >> (64 - kShift)].load(std::memory_order_relaxed);
    *place = static_cast<uint16_t>(slot);
    return (slot ^ key) >> 16 == 0;
  }
  void publish(uintptr_t return_address, size_t shape, uint16_t place) {
    const uint64_t key = key_of(return_address, shape);
    slots_[key >> (64 - kShift)].store((key & ~uint64_t{0xffff}) | place,
                                       std::memory_order_relaxed);
  }
  void forget(uintptr_t return_address, size_t shape) {
    const uint64_t key = key_of(return_address, shape);
    auto& slot = slots_[key >> (64 - kShift)];
    uint64_t value = slot.load(std::memory_order_relaxed);
    if ((value ^ key) >> 16 == 0) slot.compare_exchange_strong(value, 0, std::memory_order_relaxed);
  }
  void clear() {
    for (auto& slot : slots_) slot.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int kShift = 12;

  // shape: below 2^16. Return addresses have 48 bits, so no two keys are alike; but their low 16
  // bits are not kept, so that a place may rarely be another site's: it must do no harm there.
  static uint64_t key_of(uintptr_t return_address, size_t shape) {
    return (return_address ^ shape << 48) * 0x9E3779B97F4A7C15ull;
  }

  std::atomic<uint64_t> slots_[size_t{1} << kShift]{};
};

}  // namespace llamalloc
