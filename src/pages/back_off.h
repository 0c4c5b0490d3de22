// SPDX-License-Identifier: Apache-2.0
// How long to leave alone what the system refuses: after several refusals in a row for two rounds,
// and for twice as many each time. Two callers at once may lose one refusal.
#pragma once

#include <atomic>
#include <cstdint>

namespace llamalloc {

class BackOff {
 public:
  void begin_round() {
    const uint32_t rest = rest_.load(std::memory_order_relaxed);
    if (rest != 0) rest_.store(rest - 1, std::memory_order_relaxed);
  }
  // Nothing is worth trying in this round.
  bool is_resting() const { return rest_.load(std::memory_order_relaxed) != 0; }
  [[gnu::noinline]] void note(bool refused) {
    const uint32_t refusals = refused ? refusals_.load(std::memory_order_relaxed) + 1 : 0;
    refusals_.store(refusals, std::memory_order_relaxed);
    rest_.store(rest_after(refusals), std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kPatience = 4;       // refusals in a row
  static constexpr uint32_t kLongestRest = 256;  // rounds

  static uint32_t rest_after(uint32_t refusals) {
    if (refusals < kPatience) return 0;
    const uint32_t doublings = refusals - kPatience + 1;
    return doublings < 8 ? 1u << doublings : kLongestRest;
  }

  std::atomic<uint32_t> refusals_{0};  // in a row
  std::atomic<uint32_t> rest_{0};      // rounds until the next try
};

}  // namespace llamalloc
