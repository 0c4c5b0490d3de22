// SPDX-License-Identifier: Apache-2.0
#include "learning/load_cycle.h"

namespace llamalloc {

LoadPhase LoadCycle::step(Nanos since, size_t live_bytes) {
  const double live = static_cast<double>(live_bytes);
  const double share = static_cast<double>(since.n) / static_cast<double>(kDecay.n);
  peak_ -= peak_ * (share < 0 ? 0 : share < 1 ? share : 1);
  if (live > peak_) peak_ = live;
  const double change = live > last_ ? live - last_ : last_ - live;
  last_ = live;
  low_ = live < (low_ ? kHigh : kLow) * peak_;
  if (change > kAtRest * peak_) return LoadPhase::on_its_way;
  if (low_) return LoadPhase::trough;
  return live >= kHigh * peak_ ? LoadPhase::high : LoadPhase::on_its_way;
}

}  // namespace llamalloc
