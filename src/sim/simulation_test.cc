// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include "heap/heap.h"
#include "sim/outcome_json.h"
#include "sim/synthetic_load.h"

namespace llamalloc::sim {
namespace {

struct Finished {
  Survey survey;
  Prediction prediction;
  Outcome outcome;
  std::string error;
};

std::unique_ptr<Finished> run(TraceInput& input, const char* policy, const char* predictor,
                              const Pace& pace = {}) {
  auto done = std::make_unique<Finished>();
  PredictorSpec spec;
  EXPECT_TRUE(parse_predictor(predictor, &spec, &done->error));
  EXPECT_TRUE(survey_trace(input, &done->survey, &done->error)) << done->error;
  const Learned own{&done->survey, &input};
  EXPECT_TRUE(predict(spec, own, own, &done->prediction, &done->error)) << done->error;
  const auto made = make_policy(policy);
  if (std::string_view(policy) == "llamalloc") {  // the gate has tests of its own
    EXPECT_TRUE(made->configure("segregate:always", &done->error)) << done->error;
  }
  RunOptions options;
  options.samples = 50;
  options.pace = pace;
  EXPECT_TRUE(
      simulate(input, done->survey, done->prediction, *made, options, &done->outcome, &done->error))
      << done->error;
  return done;
}

const Moment& last(const Finished& run) {
  return run.outcome.moments.back();
}

TEST(SimulationTest, LiveAndLossesAreTheFootprintAtEveryMoment) {
  const auto input = make_synthetic_load("random", 60'000);
  for (const PolicyName& policy : kPolicyNames) {
    const auto done = run(*input, policy.name, "oracle");
    ASSERT_GE(done->outcome.moments.size(), 52u);
    for (const Moment& m : done->outcome.moments)
      ASSERT_EQ(m.footprint.huge, m.live + m.losses.sum()) << policy.name << " at " << m.time;
  }
}

// 400 transient and 4 permanent objects of 4 KiB a round; when the transient ones are gone, the
// permanent fill their pages, while without prediction they lie scattered.
std::unique_ptr<TraceInput> swinging_load() {
  std::vector<trace::Event> events;
  uint64_t object = 0, time = 0;
  for (int i = 0; i < 100; ++i) {
    for (int n = 0; n < 404; ++n)
      events.push_back({++time, object++, 4096, n % 101 == 100, 0, trace::EventKind::allocate, 4});
  }
  time += 500'000'000;
  for (uint64_t o = 0; o < object; ++o)
    if (o % 101 != 100) events.push_back({++time, o, 0, 0, 0, trace::EventKind::free, 0});
  for (int i = 0; i < 2; ++i)  // the thread returns its cache at work
    events.push_back({time += 10'000'000'000, object++, 16, 1, 0, trace::EventKind::allocate, 4});
  return make_input(std::move(events));
}

TEST(SimulationTest, AnOracleLeavesTheExpectedPages) {
  const auto input = swinging_load();
  const auto oracle = run(*input, "llamalloc", "oracle");
  // 400 objects of 4 KiB: 1.6 MB, one huge page; one for the 16 bytes at the end; and a few that
  // were shared while much of them was free.
  EXPECT_LE(last(*oracle).footprint.huge - last(*oracle).losses.metadata, 6 * kHugePageSize);
  const auto blind = run(*input, "llamalloc", "none");
  EXPECT_GE(last(*blind).footprint.huge, 75 * kHugePageSize);
  ASSERT_EQ(oracle->survey.drops.size(), 1u);
  EXPECT_LT(totals(oracle->survey, oracle->outcome).drop, 10.0);
  EXPECT_GT(totals(blind->survey, blind->outcome).drop, 50.0);
}

TEST(SimulationTest, OutliversPinPagesAndShowOnTheMap) {
  const auto input = swinging_load();
  const auto wrong = run(*input, "llamalloc", "constant:le_3s");
  const Moment& end = last(*wrong);
  EXPECT_EQ(end.outlivers, 401u);
  EXPECT_GE(end.pinned_pages, 70u);
  EXPECT_EQ(end.map_pages, end.map.size());
  size_t late = 0;
  for (const std::string& page : end.map)
    for (const char c : page) late += c == 'C';
  EXPECT_GT(late, 300u) << "le_3s is class c; outlivers are upper case";
  const auto oracle = run(*input, "llamalloc", "oracle");
  EXPECT_EQ(last(*oracle).outlivers, 0u);
  EXPECT_EQ(last(*oracle).pinned, 0u);
}

TEST(SimulationTest, APaceLiesBetweenItsMarks) {
  const Pace pace({0, 100, 400}, {4, 0}, {}, 20);
  EXPECT_EQ(pace.at(0), 0u);
  EXPECT_EQ(pace.at(5), 50u);
  EXPECT_EQ(pace.at(10), 100u);
  EXPECT_EQ(pace.at(15), 250u);
  EXPECT_EQ(pace.at(20), 400u);
  EXPECT_EQ(pace.at(25), 405u) << "after the trace, as fast as it";
  EXPECT_EQ(Pace().at(7), 7u);
}

// Pages that are empty after the drop stay until the background work comes.
TEST(SimulationTest, BackgroundWorkIsDoneWhenThePaceSays) {
  const auto input = swinging_load();
  const uint64_t end = run(*input, "llamalloc", "oracle")->survey.duration;
  const Ticks ticks{4'000'000, 0};
  const auto never = run(*input, "llamalloc", "oracle", Pace({0, end}, ticks, {}, end));
  const auto late = run(*input, "llamalloc", "oracle",
                        Pace({0, end}, ticks, {{80'801, end - 1}, {80'801, end}}, end));
  EXPECT_GE(last(*never).footprint.huge, 75 * kHugePageSize);
  EXPECT_LE(last(*late).footprint.huge, 10 * kHugePageSize);
}

TEST(SimulationTest, ATraceThatChangedBetweenThePassesIsTold) {
  const auto input = make_synthetic_load("two-class", 20'000);
  const auto other = make_synthetic_load("random", 20'000);
  Finished state;
  ASSERT_TRUE(survey_trace(*input, &state.survey, &state.error));
  const Learned own{&state.survey, input.get()};
  ASSERT_TRUE(predict({}, own, own, &state.prediction, &state.error));
  state.prediction.classes.resize(10);
  EXPECT_FALSE(simulate(*other, state.survey, state.prediction, *make_policy("llamalloc"), {},
                        &state.outcome, &state.error));
  EXPECT_NE(state.error.find("changed"), std::string::npos);
}

TEST(SimulationTest, JsonNamesWhatItHolds) {
  const auto input = make_synthetic_load("waves", 50'000);
  const auto done = run(*input, "slabs-lowest", "none");
  const std::string json = to_json({"a \"file\"", "slabs-lowest", "none"}, done->survey,
                                   done->prediction, done->outcome);
  for (const char* text : {"\"a \\\"file\\\"\"", "\"totals\":{\"average\":", "\"moments\":[",
                           "\"kind\":\"peak\"", "\"classes\":[{\"name\":\"le_10ms\""})
    EXPECT_NE(json.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace llamalloc::sim
