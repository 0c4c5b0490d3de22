// SPDX-License-Identifier: Apache-2.0
// exp without libm, branch-free so that a loop over it vectorises.
//
//   exp(x) = 2^n exp(r),  n = round(x / ln 2),  |r| <= ln 2 / 2,  exp(r) by a polynomial
//
// Within 2e-7 relative over the whole range (vector_math_test.cc). x is taken as within [-87, 88];
// a NaN stays a NaN. Source of the polynomial: Cephes, single/expf.c.
#pragma once

#include <bit>
#include <cstdint>

namespace llamalloc {

[[gnu::always_inline]] inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the integer
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t exponent =
      std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound) + 127;
  return p * std::bit_cast<float>(exponent << 23);
}

}  // namespace llamalloc
