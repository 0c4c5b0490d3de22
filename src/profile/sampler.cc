// SPDX-License-Identifier: Apache-2.0
#include "profile/sampler.h"

#include <bit>

namespace llamalloc {
namespace {

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t next_random(uint64_t& state) {
  state += 0x9E3779B97F4A7C15ull;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

// x = m 2^e with m in [1/sqrt 2, sqrt 2); ln m = 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
double natural_log(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kFraction) | uint64_t{1023} << 52);
  if (m > 1.41421356237309504880) m *= 0.5, ++exponent;
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int k = 17; k >= 1; k -= 2) sum = sum * s * s + 1.0 / k;
  return exponent * kLn2 + 2 * s * sum;
}

// f(x) = 1 - exp(-x) by its Taylor series at x / 2^k < 1/2, then f(2y) = f(y) (2 - f(y)).
double minus_expm1(double x) {
  if (x > 40) return 1;
  int doublings = 0;
  for (; x >= 0.5; x *= 0.5) ++doublings;
  double f = 1;
  for (int k = 15; k >= 2; --k) f = 1 - x / k * f;
  for (f *= x; doublings > 0; --doublings) f *= 2 - f;
  return f;
}

int64_t next_interval(uint64_t& rng_state, double mean_bytes) {
  // Uniform in (0, 1]: 53 random bits, never 0.
  const double u = static_cast<double>((next_random(rng_state) >> 11) + 1) * 0x1p-53;
  // Rounded up, as no distance but 0 (once in 2^53) is whole.
  return static_cast<int64_t>(-natural_log(u) * mean_bytes) + 1;
}

double sample_weight(size_t size, double interval) {
  return 1 / minus_expm1(static_cast<double>(sampled_bytes(size)) / interval);
}

}  // namespace llamalloc
