// SPDX-License-Identifier: Apache-2.0
#include "profile/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace llamalloc {
namespace {

TEST(Sampler, LogarithmAgreesWithLibm) {
  for (double x = 0x1p-53; x < 1e12; x *= 1.00371)
    EXPECT_NEAR(natural_log(x), std::log(x), 1e-12 * std::max(1.0, std::fabs(std::log(x))));
  EXPECT_EQ(natural_log(1), 0);
}

TEST(Sampler, MinusExpm1AgreesWithLibm) {
  for (double x = 1e-12; x < 100; x *= 1.0137)
    EXPECT_NEAR(minus_expm1(x) / -std::expm1(-x), 1, 1e-12) << x;
  EXPECT_EQ(minus_expm1(0), 0);
}

TEST(Sampler, HeaderNumbersHold) {
  const double interval = 512 * 1024;
  EXPECT_NEAR(sample_weight(16, interval), 32768.5, 0.1);
  EXPECT_NEAR(sample_weight(1024, interval), 512.5, 0.1);
  EXPECT_NEAR(sample_weight(64 << 10, interval), 8.51, 0.01);
  EXPECT_NEAR(sample_weight(512 << 10, interval), 1.582, 0.001);
  EXPECT_NEAR(sample_weight(1 << 20, interval), 1.157, 0.001);
  EXPECT_NEAR(sample_weight(4 << 20, interval), 1.0003, 0.0001);
  EXPECT_EQ(sample_weight(0, interval), sample_weight(1, interval));
  EXPECT_EQ(sample_weight(SIZE_MAX, interval), 1);
}

// Chi-square over 40 bins of equal probability: 39 degrees of freedom; P(chi2 > 76) is about
// 0.0004.
TEST(Sampler, IntervalsAreExponential) {
  constexpr int kBins = 40, kDraws = 200'000;
  for (const double mean : {64.0, 524'288.0, 1e9}) {
    std::vector<int> bins(kBins);
    uint64_t rng = 7;
    double sum = 0;
    for (int i = 0; i < kDraws; ++i) {
      const int64_t n = next_interval(rng, mean);
      ASSERT_GE(n, 1);
      sum += static_cast<double>(n);
      ++bins[static_cast<size_t>(-std::expm1(-(static_cast<double>(n) - 0.5) / mean) * kBins)];
    }
    EXPECT_NEAR(sum / kDraws / (mean + 0.5), 1, 0.01);
    if (mean < 1000) continue;  // whole bytes do not fill such bins evenly
    double chi2 = 0;
    for (const int n : bins) chi2 += std::pow(n - kDraws / kBins, 2) * kBins / kDraws;
    EXPECT_LT(chi2, 76) << mean;
  }
}

// The countdown as the runtime runs it: the weights estimate the true numbers without bias.
TEST(Sampler, WeightsAreUnbiasedForEverySize) {
  constexpr double kInterval = 4096;
  const size_t sizes[] = {0, 16, 100, 1000, 4096, 20'000, 200'000};
  std::vector<double> estimate(std::size(sizes)), truth(std::size(sizes));
  uint64_t rng = 42, order = 3;
  int64_t countdown = next_interval(rng, kInterval);
  for (int i = 0; i < 3'000'000; ++i) {
    order = order * 6364136223846793005u + 1442695040888963407u;
    const size_t which = (order >> 33) % std::size(sizes);
    truth[which] += 1;
    if ((countdown -= sampled_bytes(sizes[which])) > 0) continue;
    estimate[which] += sample_weight(sizes[which], kInterval);
    countdown = next_interval(rng, kInterval);
  }
  for (size_t i = 1; i < std::size(sizes); ++i) {
    const double p = 1 / sample_weight(sizes[i], kInterval);
    const double sigma = std::sqrt((1 - p) / (p * truth[i]));  // relative
    EXPECT_NEAR(estimate[i] / truth[i], 1, 4 * sigma + 1e-9) << sizes[i];
  }
}

}  // namespace
}  // namespace llamalloc
