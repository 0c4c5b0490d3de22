// SPDX-License-Identifier: Apache-2.0
#include "generator/generated_load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

namespace llamalloc::generator {
namespace {

using trace::Event;
using trace::EventKind;

const std::vector<SizeRate> kRows = {
    {16, 20'000, 4'000}, {24, 5, 10}, {64, 50'000, 500}, {65, 7, 3}, {4096, 3'000, 600}};

MixOptions plain_mix() {
  MixOptions mix;
  mix.contexts = 40;
  mix.sessions = mix.heavy = mix.resizing = 0;
  return mix;
}

LoadOptions options_of(uint64_t events) {
  LoadOptions options;
  options.events = events;
  options.wave = {WaveShape::sine, 1, 0.9};
  return options;
}

std::vector<Event> generate(const MixOptions& mix, const LoadOptions& options, size_t piece) {
  GeneratedLoad load(make_contexts(kRows, mix), options);
  std::vector<Event> all, some(piece);
  while (const size_t n = load.read(some)) all.insert(all.end(), some.begin(), some.begin() + n);
  return all;
}

bool same(const Event& a, const Event& b) {
  return a.time == b.time && a.object == b.object && a.size == b.size && a.stack == b.stack &&
         a.thread == b.thread && a.kind == b.kind && a.alignment_log2 == b.alignment_log2;
}

TEST(GeneratedLoad, IsTheSameForTheSameSeedHoweverItIsRead) {
  const auto one = generate({}, options_of(50'000), 4096),
             two = generate({}, options_of(50'000), 7);
  EXPECT_EQ(one.size(), 50'000u);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), two.begin(), two.end(), same));
}

TEST(GeneratedLoad, DiffersByTheSeed) {
  LoadOptions options = options_of(10'000);
  const auto one = generate({}, options, 4096);
  options.seed = 2;
  const auto two = generate({}, options, 4096);
  EXPECT_FALSE(std::equal(one.begin(), one.end(), two.begin(), two.end(), same));
}

// What event.h promises: every consumer relies on it.
TEST(GeneratedLoad, KeepsTheOrderOfEveryLife) {
  MixOptions mix;
  mix.resizing = 0.5;
  uint64_t time = 0, next = 0, resizes = 0;
  std::unordered_map<uint64_t, uint64_t> live;
  for (const Event& event : generate(mix, options_of(300'000), 4096)) {
    ASSERT_GE(event.time, time);
    time = event.time;
    ASSERT_LT(event.thread, 16u);
    if (event.kind == EventKind::allocate) {
      ASSERT_EQ(event.object, next++);
      ASSERT_GT(event.stack, 0u);
      live[event.object] = event.size;
      continue;
    }
    ASSERT_EQ(live.count(event.object), 1u);
    if (event.kind == EventKind::free) {
      live.erase(event.object);
    } else {
      EXPECT_EQ(event.size, 2 * live[event.object]);
      live[event.object] = event.size;
      ++resizes;
    }
  }
  EXPECT_GT(resizes, 1000u);
}

// Little's law, size by size: what is allocated a second, and what is live, is what was measured.
TEST(GeneratedLoad, HasTheRatesAndTheLiveObjectsThatWereMeasured) {
  LoadOptions options = options_of(2'000'000);
  options.wave.shape = WaveShape::none;
  std::map<uint64_t, double> allocated, live, live_seconds;
  std::unordered_map<uint64_t, uint64_t> size_of;
  double now = 0, start = -1;
  for (const Event& event : generate(plain_mix(), options, 4096)) {
    if (start < 0 && event.object > 5113) start = static_cast<double>(event.time) * 1e-9;
    const double passed = static_cast<double>(event.time) * 1e-9 - now;
    now += passed;
    if (start >= 0) {
      for (const auto& [size, count] : live) live_seconds[size] += count * passed;
    }
    if (event.kind == EventKind::allocate) {
      allocated[event.size] += start >= 0;
      size_of[event.object] = event.size;
    }
    live[size_of[event.object]] += event.kind == EventKind::allocate ? 1 : -1;
  }
  const double seconds = now - start;
  for (const SizeRate& row : {kRows[0], kRows[2], kRows[4]}) {
    EXPECT_NEAR(allocated[row.size] / seconds, row.rate, 0.05 * row.rate) << row.size;
    EXPECT_NEAR(live_seconds[row.size] / seconds, row.live, 0.15 * row.live) << row.size;
  }
  EXPECT_GT(allocated[24] + allocated[65], 50);
}

TEST(GeneratedLoad, FollowsTheWave) {
  size_t high = 0, low = 0;
  for (const Event& event : generate(plain_mix(), options_of(500'000), 4096)) {
    const double phase = std::fmod(static_cast<double>(event.time) * 1e-9, 1.0);
    if (event.kind == EventKind::allocate) ++(phase < 0.5 ? high : low);
  }
  EXPECT_GT(high, 3 * low);
}

// Arrivals in each 48th of a period, beside what the shape says of it.
TEST(GeneratedLoad, FollowsEveryShape) {
  constexpr int kParts = 48;
  for (const WaveShape shape :
       {WaveShape::none, WaveShape::sine, WaveShape::steps, WaveShape::bursts, WaveShape::days}) {
    LoadOptions options = options_of(400'000);
    options.wave = {shape, 2, 0.9};
    options.warm_up = false;
    double rate = 0;
    for (const SizeRate& row : kRows) rate += row.rate;
    std::vector<double> arrivals(kParts);
    MixOptions mix = plain_mix();
    mix.batches = 0;
    for (const Event& event : generate(mix, options, 4096)) {
      const double part = static_cast<double>(event.time) * 1e-9 / options.wave.period * kParts;
      if (part < kParts && event.kind == EventKind::allocate) ++arrivals[static_cast<size_t>(part)];
    }
    for (int part = 0; part < kParts; ++part) {
      double asked = 0;
      for (int i = 0; i < 100; ++i)
        asked += options.wave.at((part + (i + 0.5) / 100) / kParts * options.wave.period) / 100;
      asked *= rate * options.wave.period / kParts;
      EXPECT_NEAR(arrivals[part], asked, 0.05 * asked + 5 * std::sqrt(asked))
          << "shape " << static_cast<int>(shape) << ", part " << part;
    }
  }
}

TEST(GeneratedLoad, EndsSessionsWithTheWave) {
  MixOptions mix = plain_mix();
  mix.sessions = 1;
  std::unordered_map<uint64_t, uint64_t> born;
  for (const Event& event : generate(mix, options_of(300'000), 4096)) {
    if (event.kind == EventKind::allocate) born[event.object] = event.time;
    if (event.kind == EventKind::free) {
      EXPECT_GT(event.time / 1'000'000'000, born[event.object] / 1'000'000'000);
    }
  }
}

TEST(GeneratedLoad, CountsWhatLives) {
  GeneratedLoad load(make_contexts(kRows, {}), options_of(20'000));
  std::vector<Event> events(20'000);
  ASSERT_EQ(load.read(events), events.size());
  std::unordered_map<uint64_t, uint64_t> live;
  uint64_t sum = 0;
  for (const Event& event : events) {
    sum -= live[event.object];
    sum += live[event.object] = event.size;
  }
  EXPECT_EQ(load.live_bytes(), sum);
  EXPECT_GE(load.peak_live_bytes(), sum);
}

TEST(ContextMix, GivesOneSizeSeveralLifetimesAndEachContextAStack) {
  const auto contexts = make_contexts(kRows, plain_mix());
  std::set<double> means;
  std::set<std::vector<std::string>> stacks;
  for (const Context& context : contexts) {
    if (context.sizes == std::vector<uint64_t>{64}) means.insert(context.lifetime.mean());
    stacks.insert(context.frames);
    EXPECT_EQ(context.frames.back(), "main");
  }
  EXPECT_EQ(means.size(), 12u);
  EXPECT_EQ(stacks.size(), contexts.size());
}

}  // namespace
}  // namespace llamalloc::generator
