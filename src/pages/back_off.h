// SPDX-License-Identifier: Apache-2.0
// How long to leave alone what the system refuses: after several refusals in a row for two rounds,
// and for twice as many each time. For one thread at a time.
#pragma once

#include <cstdint>

namespace llamalloc {

class BackOff {
 public:
  void begin_round() {
    if (rest_ != 0) --rest_;
  }
  // Nothing is worth trying in this round.
  bool is_resting() const { return rest_ != 0; }
  [[gnu::noinline]] void note(bool refused) {
    refusals_ = refused ? refusals_ + 1 : 0;
    rest_ = rest_after(refusals_);
  }

 private:
  static constexpr uint32_t kPatience = 4;       // refusals in a row
  static constexpr uint32_t kLongestRest = 256;  // rounds

  static uint32_t rest_after(uint32_t refusals) {
    if (refusals < kPatience) return 0;
    const uint32_t doublings = refusals - kPatience + 1;
    return doublings < 8 ? 1u << doublings : kLongestRest;
  }

  uint32_t refusals_ = 0;  // in a row
  uint32_t rest_ = 0;      // rounds until the next try
};

}  // namespace llamalloc
