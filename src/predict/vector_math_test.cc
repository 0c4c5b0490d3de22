// SPDX-License-Identifier: Apache-2.0
#include "predict/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace llamalloc {
namespace {

// The largest error of f against a reference over [-limit, limit].
template <typename Error>
double worst(double limit, const Error& error) {
  double largest = 0;
  for (double x = -limit; x <= limit; x += limit / 500'000)
    largest = std::max(largest, error(static_cast<float>(x)));
  return largest;
}

TEST(VectorMath, ExpIsWithinItsBound) {
  const double error = worst(87, [](float x) {
    const double exact = std::exp(static_cast<double>(x));
    return std::fabs(fast_exp(x) - exact) / exact;
  });
  RecordProperty("exp_relative_error", std::to_string(error));
  EXPECT_LT(error, 2e-7);
}

TEST(VectorMath, StaysFiniteAtTheEnds) {
  EXPECT_LT(fast_exp(-3e38f), 2e-38f);
  EXPECT_TRUE(std::isfinite(fast_exp(INFINITY)));
  EXPECT_TRUE(std::isnan(fast_exp(NAN)));
}

}  // namespace
}  // namespace llamalloc
