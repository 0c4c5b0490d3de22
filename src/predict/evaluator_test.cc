// SPDX-License-Identifier: Apache-2.0
#include "predict/evaluator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <string>

#include "predict/test_model.h"

namespace llamalloc {
namespace {

class EvaluatorTest : public testing::Test {
 protected:
  Evaluator* load(const TestModel& model) {
    const std::string path = testing::TempDir() + "evaluator_test." + std::to_string(getpid());
    std::ofstream(path, std::ios::binary) << model.bytes();
    Evaluator* evaluator = Evaluator::load(path.c_str(), arena_, error_, sizeof(error_));
    unlink(path.c_str());
    return evaluator;
  }
  // Makes the output the softmax of the bias alone.
  static void predict_always(TestModel* model, LifetimeClass c) {
    TestTensor& kernel = model->tensor("dense_kernel");
    std::fill(kernel.data.begin(), kernel.data.end(), '\0');
    for (int i = 0; i < kLifetimeClasses; ++i)
      model->set_float("dense_bias", i, i == static_cast<int>(c) ? 5.0f : 0.0f);
  }

  MetadataArena arena_{system_pages};
  char error_[256];
  const char* frames_[2] = {"Foo", "main"};
};

TEST_F(EvaluatorTest, GivesAClassAndADistribution) {
  TestModel model;
  predict_always(&model, LifetimeClass::le_10s);
  Evaluator* evaluator = load(model);
  ASSERT_NE(evaluator, nullptr) << error_;
  const Evaluator::Result result = evaluator->evaluate(frames_, 2, 10);
  EXPECT_EQ(result.best, LifetimeClass::le_10s);
  float sum = 0;
  for (float p : result.probability) sum += p;
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST_F(EvaluatorTest, ReadsTokensThroughTheVocabulary) {
  Evaluator* evaluator = load(TestModel());
  ASSERT_NE(evaluator, nullptr) << error_;
  const uint32_t ids[] = {3, 1, 2};  // foo @ main
  float expected[kLifetimeClasses];
  evaluator->network().run(ids, 3, size_row(10), expected);
  const Evaluator::Result known = evaluator->evaluate(frames_, 2, 10);
  for (int i = 0; i < kLifetimeClasses; ++i) EXPECT_EQ(known.probability[i], expected[i]);
  const Evaluator::Result other = evaluator->evaluate(frames_, 2, 17);
  EXPECT_NE(known.probability[0], other.probability[0]);
}

TEST_F(EvaluatorTest, KeepsNoStateBetweenContexts) {
  Evaluator* evaluator = load(TestModel());
  ASSERT_NE(evaluator, nullptr) << error_;
  const Evaluator::Result first = evaluator->evaluate(frames_, 2, 10);
  evaluator->evaluate(frames_ + 1, 1, 5000);
  const Evaluator::Result again = evaluator->evaluate(frames_, 2, 10);
  EXPECT_EQ(memcmp(first.probability, again.probability, sizeof(first.probability)), 0);
}

TEST_F(EvaluatorTest, AnswersMixedWhenTheArithmeticOverflows) {
  TestModel model;
  for (int i = 0; i < 5 * kLifetimeClasses; ++i) model.set_float("dense_kernel", i, 3e38f);
  for (int j = 0; j < 64 * 5; ++j) model.set_float("size_bias", j, 3e38f);
  Evaluator* evaluator = load(model);
  ASSERT_NE(evaluator, nullptr) << error_;
  const Evaluator::Result result = evaluator->evaluate(frames_, 2, 10);
  EXPECT_EQ(result.best, LifetimeClass::mixed);
  EXPECT_EQ(result.probability[static_cast<int>(LifetimeClass::mixed)], 1.0f);
}

TEST_F(EvaluatorTest, SaysWhyAModelIsRefused) {
  TestModel model;
  model.metadata["version"] = std::string("7");
  EXPECT_EQ(load(model), nullptr);
  EXPECT_TRUE(std::string(error_).ends_with(": version 7, this library reads 3; train again"))
      << error_;
  char tiny[8];
  EXPECT_EQ(Evaluator::load("/no/such.model", arena_, tiny, sizeof(tiny)), nullptr);
  EXPECT_STREQ(tiny, "model /");
}

Evaluator::Result result_of(std::initializer_list<std::pair<LifetimeClass, float>> probabilities) {
  Evaluator::Result result{};
  for (const auto& [c, p] : probabilities) result.probability[static_cast<int>(c)] = p;
  return result;
}

TEST(Choose, TakesTheGroupBeforeTheClass) {
  using enum LifetimeClass;
  EXPECT_EQ(choose(result_of({{never, 0.40f}, {le_10ms, 0.25f}, {le_3s, 0.35f}})), le_3s);
  EXPECT_EQ(choose(result_of({{never, 0.60f}, {le_10ms, 0.40f}})), never);
  EXPECT_EQ(choose(result_of({{mixed, 0.60f}, {le_10ms, 0.40f}})), mixed);
}

TEST(Choose, AnswersMixedWithoutAMajority) {
  using enum LifetimeClass;
  EXPECT_EQ(choose(result_of({{never, 0.49f}, {le_10ms, 0.26f}, {le_10s, 0.25f}})), mixed);
  EXPECT_EQ(choose(result_of({{never, 0.50f}, {le_10ms, 0.30f}, {le_10s, 0.20f}})), never);
}

}  // namespace
}  // namespace llamalloc
