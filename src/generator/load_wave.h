// SPDX-License-Identifier: Apache-2.0
// The load over time, as a factor on every rate of allocation; its mean over a period is about 1.
//
//   none   ________   sine  /\    /\    steps   1.5 _|~|_      _
//                             \  /  \  /             |   |  __| |   up and down, by levels that
//                              \/    \/              |   |_|    |   depth scales
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

namespace llamalloc::generator {

enum class WaveShape { none, sine, steps };

struct LoadWave {
  WaveShape shape = WaveShape::sine;
  double period = 8;   // seconds
  double depth = 0.9;  // 0: none; 1: down to nearly no load

  // Never below kLeast, so that time goes on.
  static constexpr double kLeast = 0.02;

  double at(double seconds) const {
    if (shape == WaveShape::none) return 1;
    const double phase = seconds / period - std::floor(seconds / period);
    const double swing =
        shape == WaveShape::sine ? std::sin(2 * std::numbers::pi * phase) : level(phase);
    return std::max(kLeast, 1 + depth * swing);
  }
  // When the wave of that moment is over.
  double end_of_period(double seconds) const { return (std::floor(seconds / period) + 1) * period; }

 private:
  static double level(double phase) {
    constexpr double kLevels[] = {0, 0.6, 1, 1, 0.2, -0.8, -1, -1};
    return kLevels[static_cast<size_t>(phase * std::size(kLevels)) % std::size(kLevels)];
  }
};

}  // namespace llamalloc::generator
