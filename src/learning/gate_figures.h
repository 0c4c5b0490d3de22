// SPDX-License-Identifier: Apache-2.0
// What the gate counts in: thousandths of the peak, bytes pinned, held by live.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "learning/gate.h"

namespace llamalloc {

inline constexpr uint32_t kMille = 1000;
inline constexpr double kMiB = 1 << 20;
inline constexpr uint32_t kMostMille = 1000 * kMille;  // a ratio of 1,000; more is cut off
inline constexpr uint32_t kLeastGain = 50;             // of a trial, by the peak,
inline constexpr uint32_t kGainShare = 10;  // and a tenth of the waste: placement takes time

inline uint32_t mille(double share) {
  const double value = share * kMille;
  return value <= 0 ? 0 : value >= kMostMille ? kMostMille : static_cast<uint32_t>(value);
}

// Of a trial, beside what is pinned without placement.
inline uint32_t gain_asked(uint32_t without) {
  return std::max(kLeastGain, without / kGainShare);
}

inline uint32_t percent(double share) {
  return mille(share) / 10;
}

inline double ratio_of(size_t held, size_t live) {
  return static_cast<double>(held) / static_cast<double>(live ? live : 1);
}

inline size_t pinned_of(const GateFigures& figures) {
  return figures.held > figures.live ? figures.held - figures.live : 0;
}

// Bytes. Held by live is at least kSparse.
inline bool is_fragmented(double pinned, double live) {
  return pinned >= static_cast<double>(Gate::kMuch) && pinned >= (Gate::kSparse - 1) * live;
}

inline bool is_fragmented(const GateFigures& figures) {
  return is_fragmented(static_cast<double>(pinned_of(figures)), static_cast<double>(figures.live));
}

}  // namespace llamalloc
