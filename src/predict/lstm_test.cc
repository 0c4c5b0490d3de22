// SPDX-License-Identifier: Apache-2.0
#include "predict/lstm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace llamalloc {
namespace {

using Doubles = std::vector<double>;

// Random weights, as large as a trained model's, in the shapes of LstmWeights.
struct RandomModel {
  RandomModel(uint32_t E, uint32_t H, uint32_t C, float scale) : config{17, E, H, C} {
    for (auto [field, size] : {std::pair{&LstmWeights::embedding, 17 * E},
                               {&LstmWeights::kernel, (E + H) * 4 * H},
                               {&LstmWeights::bias, 4 * H},
                               {&LstmWeights::dense_kernel, H * C},
                               {&LstmWeights::dense_bias, C}}) {
      storage.emplace_back(size);
      for (float& w : storage.back()) w = std::normal_distribution<float>(0, scale)(random);
      weights.*field = storage.back().data();
    }
  }
  std::vector<uint32_t> sequence(size_t length) {
    std::vector<uint32_t> ids(length);
    for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % config.vocabulary);
    return ids;
  }
  std::minstd_rand random{3};
  LstmConfig config;
  LstmWeights weights;
  std::vector<std::vector<float>> storage;
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

// The formulas of contracts/model_format.md, one sum at a time, in double precision.
Doubles reference(const RandomModel& model, const std::vector<uint32_t>& ids) {
  const auto& [V, E, H, C] = model.config;
  const LstmWeights& w = model.weights;
  Doubles h(H), c(H), z(4 * H), p(C);
  for (uint32_t id : ids) {
    for (uint32_t j = 0; j < 4 * H; ++j) {
      z[j] = w.bias[j];
      for (uint32_t k = 0; k < E; ++k)
        z[j] += double{w.embedding[id * E + k]} * w.kernel[k * 4 * H + j];
      for (uint32_t k = 0; k < H; ++k) z[j] += h[k] * w.kernel[(E + k) * 4 * H + j];
    }
    for (uint32_t j = 0; j < H; ++j) {
      c[j] = logistic(z[H + j]) * c[j] + logistic(z[j]) * std::tanh(z[2 * H + j]);
      h[j] = logistic(z[3 * H + j]) * std::tanh(c[j]);
    }
  }
  for (uint32_t i = 0; i < C; ++i) {
    p[i] = w.dense_bias[i];
    for (uint32_t k = 0; k < H; ++k) p[i] += h[k] * w.dense_kernel[k * C + i];
    p[i] = std::exp(p[i]);
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

class LstmTest : public testing::TestWithParam<std::pair<uint32_t, uint32_t>> {};

TEST_P(LstmTest, EqualsTheReferenceInBothVariants) {
  const auto [E, H] = GetParam();
  RandomModel model(E, H, 9, 0.3f);
  MetadataArena arena(system_pages);
  Lstm lstm;
  ASSERT_TRUE(lstm.init(model.config, model.weights, arena));
  for (int variant = lstm.uses_avx2() ? 0 : 1; variant < 2; ++variant) {
    if (variant == 1) lstm.use_baseline();
    for (size_t length : {0, 1, 7, 8, 9, 100, 128}) {
      const std::vector<uint32_t> ids = model.sequence(length);
      float probability[9];
      lstm.run(ids.data(), static_cast<uint32_t>(ids.size()), probability);
      const Doubles expected = reference(model, ids);
      for (int i = 0; i < 9; ++i) EXPECT_NEAR(probability[i], expected[i], 1e-5) << length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, LstmTest,
                         testing::Values(std::pair{32u, 64u}, std::pair{1u, 1u}, std::pair{5u, 3u},
                                         std::pair{31u, 66u}));

TEST(Lstm, KeepsApartLogitsBeyondTheRangeOfExp) {
  RandomModel model(2, 2, 3, 0.1f);
  const float bias[] = {500, 600, 0};
  model.weights.dense_bias = bias;
  MetadataArena arena(system_pages);
  Lstm lstm;
  ASSERT_TRUE(lstm.init(model.config, model.weights, arena));
  const uint32_t id = 1;
  float probability[3];
  lstm.run(&id, 1, probability);
  EXPECT_LT(probability[0], 1e-6);
  EXPECT_NEAR(probability[1], 1, 1e-6);
}

TEST(Lstm, WorksAtTheLargestWidths) {
  RandomModel model(512, 512, 9, 0.05f);
  MetadataArena arena(system_pages);
  Lstm lstm;
  ASSERT_TRUE(lstm.init(model.config, model.weights, arena));
  const std::vector<uint32_t> ids = model.sequence(3);
  float probability[9];
  lstm.run(ids.data(), 3, probability);
  const Doubles expected = reference(model, ids);
  for (int i = 0; i < 9; ++i) EXPECT_NEAR(probability[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace llamalloc
