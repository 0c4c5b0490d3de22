// SPDX-License-Identifier: Apache-2.0
#include "predict/bag_of_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace llamalloc {
namespace {

using Doubles = std::vector<double>;
using Ids = std::vector<uint32_t>;

// Random weights, as large as a trained model's, in the shapes of BagWeights.
struct RandomModel {
  RandomModel(uint32_t E, uint32_t D, uint32_t H, float scale) : config{17, E, D, H, 9} {
    for (auto [field, size] : {std::pair{&BagWeights::embedding, 17 * E},
                               {&BagWeights::depth_scale, D * E},
                               {&BagWeights::hidden_kernel, E * H},
                               {&BagWeights::size_bias, kSizeRows * H},
                               {&BagWeights::dense_kernel, H * 9},
                               {&BagWeights::dense_bias, 9}}) {
      storage.emplace_back(size);
      for (float& w : storage.back()) w = std::normal_distribution<float>(0, scale)(random);
      weights.*field = storage.back().data();
    }
  }
  // A fifth of them separators, some unknown.
  Ids sequence(size_t length) {
    Ids ids(length);
    for (uint32_t& id : ids) id = random() % 5 == 0 ? 1 : random() % config.vocabulary;
    return ids;
  }
  std::minstd_rand random{3};
  BagConfig config;
  BagWeights weights;
  std::vector<std::vector<float>> storage;
};

std::vector<Ids> frames_of(const Ids& ids) {
  std::vector<Ids> frames(1);
  for (uint32_t id : ids) {
    if (id == kSeparatorId) frames.emplace_back();
    if (id > kSeparatorId) frames.back().push_back(id);
  }
  return frames;
}

// The formulas of contracts/model_format.md, one sum at a time, in double precision.
Doubles reference(const RandomModel& model, const Ids& ids, uint32_t row) {
  const auto& [V, E, D, H, C] = model.config;
  const BagWeights& w = model.weights;
  Doubles state(E), p(C);
  const std::vector<Ids> frames = frames_of(ids);
  for (size_t d = 0; d < frames.size() && d < D; ++d)
    for (uint32_t id : frames[d])
      for (uint32_t k = 0; k < E; ++k)
        state[k] += double{w.depth_scale[d * E + k]} * w.embedding[id * E + k] /
                    std::sqrt(static_cast<double>(frames[d].size()));
  for (uint32_t i = 0; i < C; ++i) p[i] = w.dense_bias[i];
  for (uint32_t j = 0; j < H; ++j) {
    double z = w.size_bias[row * H + j];
    for (uint32_t k = 0; k < E; ++k) z += state[k] * w.hidden_kernel[k * H + j];
    for (uint32_t i = 0; i < C; ++i) p[i] += std::max(z, 0.0) * w.dense_kernel[j * C + i];
  }
  for (double& x : p) x = std::exp(x);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

class BagOfFramesTest : public testing::Test {
 protected:
  std::vector<float> run(const RandomModel& model, const Ids& ids, uint32_t row = 20) {
    BagOfFrames network;
    EXPECT_TRUE(network.init(model.config, model.weights, arena_));
    std::vector<float> probability(model.config.classes);
    network.run(ids.data(), static_cast<uint32_t>(ids.size()), row, probability.data());
    return probability;
  }
  MetadataArena arena_{system_pages};
};

TEST_F(BagOfFramesTest, EqualsTheReference) {
  for (const auto& [E, D, H] :
       {std::tuple{32u, 16u, 64u}, {1u, 1u, 1u}, {5u, 32u, 3u}, {31u, 2u, 66u}, {512u, 4u, 512u}}) {
    RandomModel model(E, D, H, E > 100 ? 0.05f : 0.3f);
    for (const size_t length : {0, 1, 7, 8, 9, 100, 127}) {
      const Ids ids = model.sequence(length);
      const uint32_t row = length % kSizeRows;
      const std::vector<float> found = run(model, ids, row);
      const Doubles expected = reference(model, ids, row);
      for (int i = 0; i < 9; ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << E << ' ' << length;
    }
  }
}

TEST_F(BagOfFramesTest, KeepsNothingBetweenRuns) {
  RandomModel model(6, 3, 4, 0.5f);
  BagOfFrames network;
  ASSERT_TRUE(network.init(model.config, model.weights, arena_));
  const Ids ids = {3, 4, 1, 5}, deep = {2, 1, 3, 1, 4, 1, 5, 6};
  float first[9], other[9], again[9];
  network.run(ids.data(), 4, 8, first);
  network.run(deep.data(), 8, 9, other);
  network.run(ids.data(), 4, 8, again);
  EXPECT_TRUE(std::equal(first, first + 9, again));
}

TEST_F(BagOfFramesTest, PassesOverUnknownTokensAndDeepFrames) {
  RandomModel model(6, 2, 16, 0.5f);
  const std::vector<float> known = run(model, {3, 4, 1, 5});
  EXPECT_EQ(run(model, {0, 3, 4, 0, 1, 5}), known);
  EXPECT_EQ(run(model, {3, 4, 1, 5, 1, 6, 7, 1, 8}), known);
  EXPECT_NE(run(model, {3, 4, 1, 1, 5}), known);
  EXPECT_NE(run(model, {3, 4, 1, 5}, 21), known);
}

TEST_F(BagOfFramesTest, KeepsApartLogitsBeyondTheRangeOfExp) {
  RandomModel model(2, 1, 2, 0.1f);
  const float bias[9] = {500, 600};
  model.weights.dense_bias = bias;
  const std::vector<float> found = run(model, {2});
  EXPECT_LT(found[0], 1e-6);
  EXPECT_NEAR(found[1], 1, 1e-6);
}

TEST_F(BagOfFramesTest, WhatIsNoNumberStaysNone) {
  RandomModel model(1, 1, 1, 0.1f);
  const float bias[kSizeRows] = {}, huge[9] = {0, 0, 3e38f};
  float scale = INFINITY, kernel = 0;  // as sums of large weights may be
  model.weights.embedding = huge;
  model.weights.depth_scale = &scale;
  model.weights.hidden_kernel = &kernel;
  model.weights.size_bias = bias;
  EXPECT_TRUE(std::isnan(run(model, {2}, 8)[0])) << "infinity times 0";
}

TEST(SizeRow, GrowsTwiceForEachDoubling) {
  EXPECT_EQ(size_row(1), 8u);
  EXPECT_EQ(size_row(17), 10u);
  EXPECT_EQ(size_row(100), 13u);  // bucket 112
  EXPECT_EQ(size_row(1024), 20u);
  EXPECT_EQ(size_row(1500), 21u);
  EXPECT_EQ(size_row(uint64_t{2} << 30), 62u);
  for (const uint64_t most : {uint64_t{4} << 30, ~uint64_t{0}}) EXPECT_EQ(size_row(most), 63u);
}

}  // namespace
}  // namespace llamalloc
