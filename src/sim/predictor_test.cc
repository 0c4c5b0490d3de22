// SPDX-License-Identifier: Apache-2.0
#include "sim/predictor.h"

#include <gtest/gtest.h>

#include "predict/test_golden.h"
#include "sim/synthetic_load.h"

namespace llamalloc::sim {
namespace {

using C = LifetimeClass;

Lives lives(std::initializer_list<std::pair<C, uint64_t>> freed, uint64_t elders = 0) {
  Lives made;
  for (const auto& [c, count] : freed) made.freed[static_cast<int>(c)] = count;
  made.elders = elders;
  return made;
}

TEST(LabelTest, IsTheShortestClassThatAtMostTheTailOutlives) {
  EXPECT_EQ(label(lives({{C::le_10ms, 100000}}), 0.9999), C::le_10ms);
  EXPECT_EQ(label(lives({{C::le_10ms, 100000}, {C::le_3s, 9}}), 0.9999), C::le_10ms);
  EXPECT_EQ(label(lives({{C::le_10ms, 100000}, {C::le_3s, 20}}), 0.9999), C::le_3s);
  EXPECT_EQ(label(lives({{C::le_10ms, 100000}, {C::le_3s, 20}}), 0.95), C::le_10ms);
}

TEST(LabelTest, WhatStaysIsNeverAndATrapIsMixed) {
  EXPECT_EQ(label(lives({}, 5), 0.9999), C::never);
  EXPECT_EQ(label(lives({{C::le_10ms, 10}}, 90), 0.9999), C::never);
  EXPECT_EQ(label(lives({{C::le_10ms, 990}}, 10), 0.9999), C::mixed);
  EXPECT_EQ(label(lives({{C::gt_1000s, 990}}, 10), 0.9999), C::never);
}

TEST(LabelTest, YoungSurvivorsCountAsOldAsTheyAre) {
  Lives young = lives({{C::le_10ms, 100}});
  young.in_flight[static_cast<int>(C::le_100ms)] = 3;
  EXPECT_EQ(label(young, 0.9999), C::le_100ms);
  EXPECT_EQ(label(Lives{}, 0.9999), C::never);
}

void read_counts(GoldenReader& golden, const char* name, uint64_t (&counts)[kLifetimeClasses]) {
  golden.key(name);
  const auto values = golden.list([&] { return golden.integer(); });
  ASSERT_LE(values.size(), size_t{kLifetimeClasses});
  std::copy(values.begin(), values.end(), counts);
  golden.expect(',');
}

// The twin's labels (python/llamalloc/learning/labels.py).
TEST(LabelTest, IsWhatTrainingGives) {
  GoldenReader golden("labels.json");
  golden.expect('{');
  golden.key("cases");
  const auto cases = golden.list([&] {
    Lives ended;
    golden.expect('{');
    read_counts(golden, "freed", ended.freed);
    golden.key("elders");
    ended.elders = golden.integer();
    golden.expect(',');
    read_counts(golden, "young", ended.in_flight);
    golden.key("tail");
    const double tail = golden.number();
    golden.expect(',');
    golden.key("class");
    const std::string expected = golden.string();
    golden.expect('}');
    const LifetimeClass c = label(ended, 1 - tail);
    EXPECT_EQ(row(c).name, expected);
    return c;
  });
  EXPECT_GT(cases.size(), 200u);
}

TEST(PredictorTest, TextsThatAreWrongAreExplained) {
  PredictorSpec spec;
  std::string error;
  EXPECT_TRUE(parse_predictor("site:0.95", &spec, &error));
  EXPECT_EQ(spec.kind, PredictorSpec::Kind::site);
  EXPECT_DOUBLE_EQ(spec.quantile, 0.95);
  EXPECT_TRUE(parse_predictor("constant:le_3s", &spec, &error));
  EXPECT_EQ(spec.constant, C::le_3s);
  EXPECT_TRUE(parse_predictor("online:64KiB", &spec, &error));
  EXPECT_EQ(spec.kind, PredictorSpec::Kind::online);
  EXPECT_EQ(spec.interval, "64KiB");
  EXPECT_TRUE(parse_predictor("state:a/b.learned", &spec, &error));
  EXPECT_EQ(spec.state, "a/b.learned");
  for (const char* text : {"", "crystal", "state:", "site:2", "site:x", "exact:0", "constant:long",
                           "model:", "oracle:5"}) {
    error.clear();
    EXPECT_FALSE(parse_predictor(text, &spec, &error)) << text;
    EXPECT_FALSE(error.empty()) << text;
  }
}

class PredictTest : public testing::Test {
 protected:
  void SetUp() override {
    input_ = make_synthetic_load("two-class", 600'000);
    ASSERT_TRUE(survey_trace(*input_, &survey_, &error_)) << error_;
  }
  Prediction run(const std::string& text, double wrong = 0, bool by_object = false) {
    PredictorSpec spec;
    EXPECT_TRUE(parse_predictor(text, &spec, &error_)) << error_;
    spec.error = wrong;
    spec.error_by_object = by_object;
    Prediction made;
    const Learned own{&survey_, input_.get()};
    EXPECT_TRUE(predict(spec, own, own, &made, &error_)) << error_;
    return made;
  }
  std::unique_ptr<TraceInput> input_;
  Survey survey_;
  std::string error_;
};

TEST_F(PredictTest, TheOracleIsNeverOutlived) {
  const Prediction oracle = run("oracle");
  for (int i = 0; i < kLifetimeClasses; ++i) EXPECT_EQ(oracle.outlived[i], 0u);
  EXPECT_GT(oracle.placements[static_cast<int>(C::never)], 0u);
}

TEST_F(PredictTest, TheOracleTakesWhatIsInFlightAtTheEndForWhatItsLikeBecame) {
  const Prediction oracle = run("oracle");
  uint64_t in_flight = 0, kept = 0;
  for (size_t i = 0; i < oracle.classes.size(); ++i) {
    if (survey_.lifetimes[i] != kNeverFreed) continue;
    const bool is_kept = survey_.context_table[survey_.contexts[i]].stack == 1;
    ++(is_kept ? kept : in_flight);
    ASSERT_EQ(oracle.classes[i] == static_cast<int>(C::never), is_kept);
  }
  EXPECT_GT(in_flight, 1000u);
  EXPECT_GT(kept, 100u);
}

TEST_F(PredictTest, ASiteTableTellsTheTwoSitesApart) {
  const Prediction site = run("site");
  std::vector<int> class_of_context(survey_.context_table.size(), -1);
  for (size_t i = 0; i < site.classes.size(); ++i)
    class_of_context[survey_.contexts[i]] = site.classes[i];
  EXPECT_EQ(class_of_context,
            (std::vector<int>{static_cast<int>(C::le_3s), static_cast<int>(C::never)}));
  EXPECT_EQ(site.known_contexts, 2u);
}

TEST_F(PredictTest, WhatWasNotLearnedIsMixed) {
  const auto other = make_input({{0, 0, 5000, 9, 0, trace::EventKind::allocate, 4}});
  Survey other_survey;
  ASSERT_TRUE(survey_trace(*other, &other_survey, &error_));
  PredictorSpec spec;
  ASSERT_TRUE(parse_predictor("exact", &spec, &error_));
  Prediction made;
  ASSERT_TRUE(
      predict(spec, {&survey_, input_.get()}, {&other_survey, other.get()}, &made, &error_));
  EXPECT_EQ(made.known_contexts, 0u);
  EXPECT_EQ(made.placements[static_cast<int>(C::mixed)], made.classes.size());
}

TEST_F(PredictTest, TheShareOfErrorsIsWhatWasAskedFor) {
  const Prediction right = run("oracle"), wrong = run("oracle", 0.1, true);
  size_t different = 0;
  for (size_t i = 0; i < right.classes.size(); ++i)
    different += right.classes[i] != wrong.classes[i];
  const double share = static_cast<double>(different) / static_cast<double>(right.classes.size());
  EXPECT_NEAR(share, 0.1, 0.01);
  const Prediction all = run("oracle", 1);
  for (size_t i = 0; i < right.classes.size(); ++i) ASSERT_NE(right.classes[i], all.classes[i]);
}

TEST_F(PredictTest, AModelThatIsNoneIsExplained) {
  PredictorSpec spec;
  ASSERT_TRUE(parse_predictor("model:/none.model", &spec, &error_));
  Prediction made;
  const Learned own{&survey_, input_.get()};
  EXPECT_FALSE(predict(spec, own, own, &made, &error_));
  EXPECT_NE(error_.find("/none.model"), std::string::npos);
}

TEST_F(PredictTest, TheGoldenModelAnswersEveryContext) {
  const Prediction made =
      run("model:" LLAMALLOC_SOURCE_DIR "/contracts/golden/model_v3.safetensors");
  EXPECT_EQ(made.classes.size(), survey_.lifetimes.size());
}

}  // namespace
}  // namespace llamalloc::sim
