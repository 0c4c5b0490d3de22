// SPDX-License-Identifier: Apache-2.0
// Each shape has the peak, the trough and the period that were asked for.
#include "generator/load_wave.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace llamalloc::generator {
namespace {

constexpr double kPeriod = 40;

double mean(const LoadWave& wave, int periods) {
  const int looks = 20'000 * periods;
  double sum = 0;
  for (int i = 0; i < looks; ++i) sum += wave.at(wave.period * periods * (i + 0.5) / looks);
  return sum / looks;
}

TEST(LoadWave, NoneIsFlat) {
  const LoadWave wave{WaveShape::none, kPeriod, 1};
  for (double t = 0; t < 100; t += 0.7) EXPECT_EQ(wave.at(t), 1);
}

TEST(LoadWave, WithoutDepthEveryShapeIsFlat) {
  for (const WaveShape shape :
       {WaveShape::sine, WaveShape::steps, WaveShape::bursts, WaveShape::days})
    for (double t = 0; t < 100; t += 0.7) EXPECT_EQ((LoadWave{shape, kPeriod, 0}.at(t)), 1);
}

TEST(LoadWave, ASineHasItsPeakAndTroughAtTheQuarters) {
  const LoadWave wave{WaveShape::sine, kPeriod, 0.6};
  for (const double start : {0.0, 5 * kPeriod}) {
    EXPECT_NEAR(wave.at(start), 1, 1e-9);
    EXPECT_NEAR(wave.at(start + kPeriod / 4), 1.6, 1e-9);
    EXPECT_NEAR(wave.at(start + kPeriod / 2), 1, 1e-9);
    EXPECT_NEAR(wave.at(start + 3 * kPeriod / 4), 0.4, 1e-9);
  }
  EXPECT_NEAR(mean(wave, 1), 1, 1e-4);
}

TEST(LoadWave, StepsAreEightLevelsOfEqualLength) {
  const LoadWave wave{WaveShape::steps, kPeriod, 0.5};
  const std::vector<double> levels = {1, 1.3, 1.5, 1.5, 1.1, 0.6, 0.5, 0.5};
  for (const int period : {0, 1, 7})
    for (size_t step = 0; step < levels.size(); ++step)
      for (const double part : {0.01, 0.5, 0.99}) {
        const double steps = static_cast<double>(step) + part;
        EXPECT_NEAR(wave.at((period + steps / 8) * kPeriod), levels[step], 1e-9) << steps;
      }
  EXPECT_NEAR(mean(wave, 3), 1, 1e-3);
}

// Where the one burst of a period begins and ends, and how high it is.
struct Burst {
  double length = 0, height = 0;
  int begins = 0;
};

Burst burst_in(const LoadWave& wave, int period, double low) {
  constexpr int kLooks = 4000;
  Burst burst;
  bool was_in = false;
  for (int i = 0; i < kLooks; ++i) {
    const double load = wave.at((period + (i + 0.5) / kLooks) * wave.period);
    const bool is_in = load > low + 1e-9;
    burst.begins += is_in && !was_in;
    was_in = is_in;
    if (is_in) burst.length += 1.0 / kLooks, burst.height = load;
    EXPECT_GE(load, low - 1e-9);
  }
  return burst;
}

TEST(LoadWave, EachPeriodHasOneBurstOfRandomHeightAndLength) {
  const LoadWave wave{WaveShape::bursts, kPeriod, 0.8};
  std::set<double> lengths, heights;
  for (int period = 0; period < 100; ++period) {
    const Burst burst = burst_in(wave, period, 1 - 0.8 * 0.7);
    ASSERT_EQ(burst.begins, 1) << period;
    EXPECT_GE(burst.length, 0.049);
    EXPECT_LE(burst.length, 0.351);
    EXPECT_GE(burst.height, 1 + 0.8 * 0.5);
    EXPECT_LE(burst.height, 1 + 0.8 * 4);
    lengths.insert(burst.length);
    heights.insert(burst.height);
  }
  EXPECT_GT(lengths.size(), 80u);
  EXPECT_EQ(heights.size(), 100u);
  EXPECT_LT(*heights.begin(), 1 + 0.8 * 1);
  EXPECT_GT(*heights.rbegin(), 1 + 0.8 * 3.5);
  EXPECT_NEAR(mean(wave, 200), 1, 0.2) << "about";
}

TEST(LoadWave, ADayIsASineWithHoursAndMinutesOnIt) {
  constexpr double kDay = 86'400, kTenMinutes = 600;
  const LoadWave wave{WaveShape::days, kDay, 0.9};
  const LoadWave sine{WaveShape::sine, kDay, 0.9 * 0.7};
  std::set<double> levels;
  for (double t = 0; t < 3 * kDay; t += 60) {
    const double hours = 0.9 * 0.15 * std::sin(2 * std::numbers::pi * t / 3600);
    const double level = wave.at(t) - sine.at(t) - hours;
    EXPECT_LE(std::abs(level), 0.9 * 0.15 + 1e-6) << t;
    levels.insert(std::round(level * 1e6));
  }
  EXPECT_GT(levels.size(), 0.9 * 3 * kDay / kTenMinutes) << "a level for each ten minutes";
  EXPECT_LE(levels.size(), 1.1 * 3 * kDay / kTenMinutes) << "and no more";
  EXPECT_NEAR(mean(wave, 3), 1, 0.03);
}

TEST(LoadWave, TimeGoesOnInTheDeepestTrough) {
  for (const WaveShape shape :
       {WaveShape::sine, WaveShape::steps, WaveShape::bursts, WaveShape::days})
    for (double t = 0; t < 10 * kPeriod; t += 0.05)
      EXPECT_GE((LoadWave{shape, kPeriod, 1}.at(t)), LoadWave::kLeast);
  EXPECT_EQ((LoadWave{WaveShape::sine, kPeriod, 1}.at(0.75 * kPeriod)), LoadWave::kLeast);
}

TEST(LoadWave, APeriodEndsWhereTheNextBegins) {
  const LoadWave wave{WaveShape::steps, kPeriod, 1};
  EXPECT_EQ(wave.end_of_period(0), kPeriod);
  EXPECT_EQ(wave.end_of_period(39.9), kPeriod);
  EXPECT_EQ(wave.end_of_period(40), 2 * kPeriod);
}

}  // namespace
}  // namespace llamalloc::generator
