// SPDX-License-Identifier: Apache-2.0
#include "generator/lifetime.h"

#include <gtest/gtest.h>

#include "generator/alias_table.h"
#include "generator/load_wave.h"

namespace llamalloc::generator {
namespace {

constexpr int kDraws = 1'000'000;

double mean_of(const Lifetime& lifetime, double (Lifetime::*draw)(Random&) const) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) sum += (lifetime.*draw)(random);
  return sum / kDraws;
}

TEST(Random, IsSplitMix64) {
  Random random(0);
  EXPECT_EQ(random.next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4u);
}

TEST(Random, DrawsWithinItsBounds) {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_LT(random.below(7), 7u);
    EXPECT_LT(random.unit(), 1);
    EXPECT_GE(random.exponential(), 0);
  }
}

TEST(AliasTable, DrawsByWeight) {
  const std::vector<double> weights = {1, 0, 5, 0.5, 3.5};
  const AliasTable table(weights);
  Random random(1);
  std::vector<int> drawn(weights.size());
  for (int i = 0; i < kDraws; ++i) ++drawn[table.draw(random)];
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(drawn[i], weights[i] / 10 * kDraws, 3000) << i;
  }
}

TEST(Lifetime, HasTheMeanThatItWasGiven) {
  EXPECT_NEAR(mean_of({LifetimeKind::exponential, 2}, &Lifetime::draw), 2, 0.02);
  EXPECT_NEAR(mean_of({LifetimeKind::log_normal, 2}, &Lifetime::draw), 2, 0.04);
  EXPECT_NEAR(mean_of({LifetimeKind::heavy, 2}, &Lifetime::draw), 2, 0.1);
}

// What is met alive has, on average, E[x^2] / (2 E[x]) still to live.
TEST(Lifetime, LeavesTheResidualOfAStateThatIsSteady) {
  EXPECT_NEAR(mean_of({LifetimeKind::exponential, 2}, &Lifetime::draw_residual), 2, 0.02);
  EXPECT_NEAR(mean_of({LifetimeKind::log_normal, 2}, &Lifetime::draw_residual), std::exp(1.0), 0.1);
  const double body = 2 * 1000 / 1299.0;
  const double second = 2 * body * body * (0.999 + 0.001 * 300 * 300);
  EXPECT_NEAR(mean_of({LifetimeKind::heavy, 2}, &Lifetime::draw_residual), second / 4, 2);
}

TEST(LoadWave, SwingsAroundOne) {
  for (const WaveShape shape : {WaveShape::none, WaveShape::sine, WaveShape::steps}) {
    const LoadWave wave{shape, 4, 0.9};
    double sum = 0, least = 2, most = 0;
    for (int i = 0; i < 8000; ++i) {
      const double at = wave.at(i * 0.001);
      sum += at, least = std::min(least, at), most = std::max(most, at);
    }
    EXPECT_NEAR(sum / 8000, 1, 0.02);
    EXPECT_NEAR(least, shape == WaveShape::none ? 1 : 0.1, 0.001);
    EXPECT_NEAR(most, shape == WaveShape::none ? 1 : 1.9, 0.001);
  }
}

TEST(LoadWave, NeverStopsTime) {
  EXPECT_GT((LoadWave{WaveShape::steps, 1, 1}).at(0.99), 0);
}

TEST(LoadWave, EndsAtTheNextMultipleOfItsPeriod) {
  const LoadWave wave{WaveShape::sine, 4, 0.9};
  EXPECT_EQ(wave.end_of_period(0), 4);
  EXPECT_EQ(wave.end_of_period(4.1), 8);
}

}  // namespace
}  // namespace llamalloc::generator
