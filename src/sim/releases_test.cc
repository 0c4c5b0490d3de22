// SPDX-License-Identifier: Apache-2.0
// "releases" of the JSON: what the engine counted in the same run, and the means over its samples.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/outcome_json.h"
#include "sim/product_policy.h"
#include "sim/synthetic_load.h"

namespace llamalloc::sim {
namespace {

// `waves` times 64 MiB, of which one object in 60 stays; nothing happens in between but a tick a
// second.
std::unique_ptr<TraceInput> waves(int waves, uint64_t seconds) {
  constexpr uint64_t kSecond = 1'000'000'000, kObjects = 16'384, kStays = 60;
  std::vector<trace::Event> events;
  uint64_t object = 0, time = 0;
  const auto allocate = [&](uint64_t size) {
    events.push_back({++time, object++, size, 1, 0, trace::EventKind::allocate, 4});
  };
  const auto free = [&](uint64_t o) {
    events.push_back({++time, o, 0, 0, 0, trace::EventKind::free, 0});
  };
  const auto wait = [&] {
    for (uint64_t i = 0; i < seconds; ++i) {
      time += kSecond;
      allocate(16);
      free(object - 1);
    }
  };
  for (int wave = 0; wave < waves; ++wave) {
    const uint64_t first = object;
    for (uint64_t i = 0; i < kObjects; ++i) allocate(4096);
    wait();
    for (uint64_t i = 0; i < kObjects; ++i)
      if (i % kStays != 0) free(first + i);
    wait();
  }
  return make_input(std::move(events));
}

struct Simulated {
  Survey survey;
  Prediction prediction;
  Outcome outcome;

  Simulated(TraceInput& input, Policy& policy, size_t samples) {
    std::string error;
    EXPECT_TRUE(survey_trace(input, &survey, &error)) << error;
    const Learned own{&survey, &input};
    PredictorSpec none;
    EXPECT_TRUE(parse_predictor("none", &none, &error));
    EXPECT_TRUE(predict(none, own, own, &prediction, &error)) << error;
    RunOptions options;
    options.samples = samples;
    EXPECT_TRUE(simulate(input, survey, prediction, policy, options, &outcome, &error)) << error;
  }
  // Of "releases" in the JSON.
  uint64_t of(const std::string& name) const {
    const std::string json = to_json({"x", "x", "none"}, survey, prediction, outcome);
    const size_t part = json.find("\"releases\":{");
    const std::string key = "\"" + name + "\":";
    const size_t at = json.find(key, part);
    EXPECT_LT(at, json.find('}', part)) << name;
    return strtoull(json.c_str() + at + key.size(), nullptr, 10);
  }
};

constexpr struct {
  const char* name;
  Stat stat;
} kCounted[] = {
    {"pages_broken", Stat::pages_broken},           {"bytes_broken", Stat::bytes_broken},
    {"pages_mended", Stat::pages_mended},           {"skipped", Stat::release_skipped},
    {"skipped_right", Stat::release_skipped_right}, {"skipped_wrong", Stat::release_skipped_wrong},
    {"broken_by_rate", Stat::broken_by_rate},       {"hold_empty_ns", Stat::hold_empty},
    {"hold_mappings_ns", Stat::hold_mappings},
};

class ReleasesTest : public testing::TestWithParam<const char*> {};

TEST_P(ReleasesTest, AreWhatTheEngineCounted) {
  const auto policy = ProductPolicy::make();
  ASSERT_NE(policy, nullptr);
  std::string error;
  ASSERT_TRUE(policy->configure(GetParam(), &error)) << error;
  const auto input = waves(12, 20);
  const Simulated run(*input, *policy, 100);
  for (const auto& [name, stat] : kCounted) EXPECT_EQ(run.of(name), policy->count(stat)) << name;
  EXPECT_GT(run.of("pages_broken"), 0u);
  EXPECT_LE(run.of("bytes_broken"), run.of("pages_broken") * kHugePageSize);
  EXPECT_GE(run.of("bytes_broken"), run.of("pages_broken") * kHugePageSize * 3 / 4)
      << "at most a quarter of a sparse page is used";
  EXPECT_LE(run.of("pages_mended"), run.of("pages_broken"));
  EXPECT_LE(run.of("skipped_right") + run.of("skipped_wrong"), run.of("skipped"));
  EXPECT_GT(run.of("huge_pages_refetched"), 0u);
  EXPECT_LT(run.of("huge_pages_refetched"), run.outcome.acquired);
  EXPECT_LE(run.of("realized_fragmentation"), run.of("average_fragmentation"));
  EXPECT_LE(run.of("average_fragmentation"), run.outcome.peak_footprint);
  EXPECT_GT(run.of("average_fragmentation"), 0u);
}

INSTANTIATE_TEST_SUITE_P(, ReleasesTest,
                         testing::Values("release_forecast:none", "release_forecast:peak",
                                         "release_forecast:trend,release_window:5s",
                                         "release_forecast:auto"));

TEST(ReleasesOfTest, AForecastSkipsAndIsJudged) {
  const auto input = waves(12, 20);
  const auto of = [&](const char* conf, const char* name) {
    const auto policy = ProductPolicy::make();
    std::string error;
    EXPECT_TRUE(policy->configure(conf, &error)) << error;
    return Simulated(*input, *policy, 10).of(name);
  };
  EXPECT_EQ(of("release_forecast:none", "skipped"), 0u);
  EXPECT_GT(of("release_forecast:peak", "skipped"), 0u);
  EXPECT_GT(of("release_forecast:peak", "skipped_right"), 0u);
  EXPECT_GT(of("release_forecast:none", "pages_mended"), 0u);
  EXPECT_EQ(of("release_rate:0", "bytes_broken"), 0u);
}

// Places nothing, and says 1, 2, 3 .. each time it is asked.
class CountingPolicy final : public Policy {
 public:
  uint64_t allocate(const Request& request) override { return next_ += request.size; }
  void free(uint64_t, uint64_t, uint32_t, Nanos) override {}
  void advance(Nanos) override {}
  Losses losses() override { return {}; }
  ReleaseReport releases() override {
    ++asked_;
    return {.realized = 100 * asked_, .average = 1000 * asked_, .pages_broken = asked_};
  }
  PageLedger& ledger() override { return ledger_; }
  const DirectSpace& direct() const override { return direct_; }

 private:
  uint64_t next_ = 0, asked_ = 0;
  PageLedger ledger_;
  DirectSpace direct_;
};

TEST(ReleasesOfTest, LevelsAreMeansOverTheSamplesAndCountsAreThoseOfTheEnd) {
  const auto input = waves(1, 10);
  CountingPolicy policy;
  const Simulated run(*input, policy, 4);
  EXPECT_EQ(run.of("realized_fragmentation"), 250u);
  EXPECT_EQ(run.of("average_fragmentation"), 2500u);
  EXPECT_EQ(run.of("pages_broken"), 5u);
}

}  // namespace
}  // namespace llamalloc::sim
