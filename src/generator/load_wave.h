// SPDX-License-Identifier: Apache-2.0
// The load over time, as a factor on every rate of allocation; its mean over a period is about 1.
//
//   none   ________   sine  /\    /\    steps   1.5 _|~|_      _
//                             \  /  \  /             |   |  __| |   up and down, by levels that
//                              \/    \/              |   |_|    |   depth scales
//   bursts    a spike in each period, of random height, start and length; little between them
//   days      a sine whose period is a day, with a smaller wave of an hour and a random level of
//             each ten minutes on it
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>

namespace llamalloc::generator {

enum class WaveShape { none, sine, steps, bursts, days };

struct LoadWave {
  WaveShape shape = WaveShape::sine;
  double period = 8;   // seconds
  double depth = 0.9;  // 0: none; 1: down to nearly no load

  // Never below kLeast, so that time goes on.
  static constexpr double kLeast = 0.02;

  double at(double seconds) const {
    if (shape == WaveShape::none) return 1;
    return std::max(kLeast, 1 + depth * swing(seconds));
  }
  // When the wave of that moment is over.
  double end_of_period(double seconds) const { return (std::floor(seconds / period) + 1) * period; }

 private:
  static double sine(double seconds, double length) {
    return std::sin(2 * std::numbers::pi * seconds / length);
  }
  // Between 0 and 1: always the same for the same numbers (splitmix64).
  static double random(double number, uint64_t kind) {
    uint64_t x = (static_cast<uint64_t>(number) * 4 + kind + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return static_cast<double>((x ^ x >> 31) >> 11) * 0x1p-53;
  }
  double swing(double seconds) const {
    const double number = std::floor(seconds / period);
    const double phase = seconds / period - number;
    switch (shape) {
      case WaveShape::sine:
        return std::sin(2 * std::numbers::pi * phase);
      case WaveShape::steps:
        return level(phase);
      case WaveShape::bursts: {
        const double length = 0.05 + 0.3 * random(number, 0);
        const double start = (1 - length) * random(number, 1);
        const bool is_in = phase >= start && phase < start + length;
        return is_in ? 0.5 + 3.5 * random(number, 2) : -0.7;
      }
      case WaveShape::days:
        return 0.7 * std::sin(2 * std::numbers::pi * phase) + 0.15 * sine(seconds, period / 24) +
               0.3 * (random(std::floor(seconds / (period / 144)), 3) - 0.5);
      case WaveShape::none:
        break;
    }
    return 0;
  }
  static double level(double phase) {
    constexpr double kLevels[] = {0, 0.6, 1, 1, 0.2, -0.8, -1, -1};
    return kLevels[static_cast<size_t>(phase * std::size(kLevels)) % std::size(kLevels)];
  }
};

}  // namespace llamalloc::generator
