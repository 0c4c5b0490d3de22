// SPDX-License-Identifier: Apache-2.0
// A process that learns, in a simulation: a load in waves of which one context's objects stay.
#include "sim/sim_learning.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/outcome_json.h"
#include "sim/simulation.h"
#include "sim/synthetic_load.h"

namespace llamalloc::sim {
namespace {

using trace::Event;
using trace::EventKind;

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kShort = 1, kKept = 2;  // stacks

// Six seconds a wave: in one, 96 MiB of objects of 4 KiB; then they die, and nothing happens. One
// in 50, of another context, stays.
std::unique_ptr<TraceInput> waves(int count, int objects = 24'000) {
  std::vector<Event> events;
  std::vector<uint64_t> dying;
  uint64_t object = 0, time = 0;
  for (int wave = 0; wave < count; ++wave) {
    for (int i = 0; i < objects; ++i) {
      const bool stays = i % 50 == 0;
      if (!stays) dying.push_back(object);
      time += kMillisecond / 24;
      events.push_back({time, object++, 4096, stays ? uint32_t{kKept} : uint32_t{kShort}, 0,
                        EventKind::allocate, 4});
    }
    time += 500 * kMillisecond;
    for (const uint64_t dead : dying) events.push_back({++time, dead, 0, 0, 0, EventKind::free, 0});
    dying.clear();
    time += 4500 * kMillisecond;
    events.push_back({time, object++, 64, kKept, 0, EventKind::allocate, 4});
  }
  return make_input(std::move(events));
}

class SimLearningTest : public testing::Test {
 protected:
  ~SimLearningTest() override { unlink(state_.c_str()); }

  struct Run {
    Totals totals;
    std::vector<GateNote> gate;
    std::vector<uint8_t> chosen;
    std::string error;
  };
  Run run(TraceInput& input, const LearningOptions& options) {
    Run made;
    Survey survey;
    EXPECT_TRUE(survey_trace(input, &survey, &made.error)) << made.error;
    Prediction none;
    none.classes.assign(survey.lifetimes.size(), static_cast<uint8_t>(LifetimeClass::mixed));
    Outcome outcome;
    const auto policy = make_learning_policy(input, options, &made.error);
    if (policy == nullptr) return made;
    made.error.clear();
    EXPECT_TRUE(simulate(input, survey, none, *policy, {}, &outcome, &made.error)) << made.error;
    for (const Moment& m : outcome.moments)
      EXPECT_EQ(m.footprint.huge, m.live + m.losses.sum()) << "at " << m.time;
    made.totals = totals(survey, outcome);
    made.gate = outcome.gate;
    made.chosen = outcome.chosen;
    return made;
  }
  LearningOptions options(Segregate segregate = Segregate::automatic) {
    LearningOptions made;
    made.process.sample_interval = 64 << 10;
    made.process.segregate.value = segregate;
    return made;
  }

  const std::string state_ =
      testing::TempDir() + "sim_learning." + std::to_string(getpid()) + ".learned";
};

TEST_F(SimLearningTest, TheSecondRunPlacesFromTheStartAndSaves) {
  const auto load = waves(8);
  LearningOptions first = options();
  first.keep = state_;
  const Run learned = run(*load, first);
  ASSERT_FALSE(learned.gate.empty());
  EXPECT_FALSE(learned.gate.front().placing);
  EXPECT_TRUE(std::any_of(learned.gate.begin(), learned.gate.end(), [](const auto& m) {
    return m.late;
  })) << learned.gate.back().says;

  LearningOptions second = options();
  second.state = state_;
  const Run knows = run(*load, second);
  EXPECT_TRUE(knows.gate.front().placing);
  EXPECT_EQ(knows.gate.back().verdict, GateVerdict::helps) << knows.gate.back().says;
  const Run blind = run(*load, options(Segregate::never));
  EXPECT_LT(knows.totals.drop, 0.7 * blind.totals.drop);
  EXPECT_LT(knows.totals.average, blind.totals.average);
}

TEST_F(SimLearningTest, WhatIsKnownIsRightFromTheFirstAllocation) {
  const auto load = waves(6);
  LearningOptions first = options(Segregate::never);
  first.keep = state_;
  const Run never = run(*load, first);
  for (const uint8_t c : never.chosen) ASSERT_EQ(c, static_cast<uint8_t>(LifetimeClass::mixed));

  LearningOptions second = options(Segregate::always);
  second.state = state_;
  const Run knows = run(*load, second);
  EXPECT_EQ(knows.chosen[0], static_cast<uint8_t>(LifetimeClass::never));
  EXPECT_EQ(knows.chosen[1], static_cast<uint8_t>(LifetimeClass::le_3s));
}

TEST_F(SimLearningTest, AnotherFileIsNotWrittenOver) {
  const auto load = waves(1);
  const auto fault = [&] {
    LearningOptions keeps = options();
    keeps.keep = state_;
    std::string error;
    return make_learning_policy(*load, keeps, &error) != nullptr ? std::string() : error;
  };
  EXPECT_EQ(fault(), "") << "there is none";
  std::ofstream(state_).close();
  EXPECT_EQ(fault(), "") << "an empty one";
  std::ofstream(state_) << "a model, or the trace itself";
  EXPECT_NE(fault().find(state_ + ": not a state file"), std::string::npos) << fault();
}

// It could not save what the samples cost.
TEST_F(SimLearningTest, ASmallHeapIsNotSampled) {
  const auto kept_of = [&](int objects, Segregate segregate) {
    const auto load = waves(4, objects);
    LearningOptions learns = options(segregate);
    learns.process.sample_interval = 0;
    learns.keep = state_;
    run(*load, learns);
    return std::filesystem::file_size(state_);
  };
  const auto nothing = kept_of(100, Segregate::automatic);
  EXPECT_EQ(kept_of(10'000, Segregate::automatic), nothing) << "40 MiB";
  EXPECT_GT(kept_of(24'000, Segregate::automatic), nothing) << "96 MiB";
  EXPECT_GT(kept_of(10'000, Segregate::always), nothing) << "asked for";
}

TEST_F(SimLearningTest, AStateThatCannotBeReadIsTold) {
  const auto load = waves(1);
  LearningOptions missing = options();
  missing.state = "/none.learned";
  EXPECT_EQ(run(*load, missing).error, "/none.learned: no such file");
  missing.state = "/dev/null";
  EXPECT_NE(run(*load, missing).error.find("/dev/null"), std::string::npos);
}

}  // namespace
}  // namespace llamalloc::sim
