// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine, compiler and library for the same seed.
//
// std::exponential_distribution and its kin may differ from library to library; these do not, as
// far as log, exp and cos round alike.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace llamalloc::generator {

class Random {  // splitmix64 (Steele, Lea, Flood 2014)
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // 0 <= x < n
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
  // 0 <= x < 1
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double share) { return unit() < share; }
  // Of mean 1.
  double exponential() { return -std::log(1 - unit()); }
  // Of mean 0 and deviation 1.
  double normal() {
    const double radius = std::sqrt(2 * exponential());
    return radius * std::cos(2 * std::numbers::pi * unit());
  }

 private:
  uint64_t state_;
};

}  // namespace llamalloc::generator
