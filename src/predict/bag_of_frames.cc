// SPDX-License-Identifier: Apache-2.0
#include "predict/bag_of_frames.h"

#include <cstring>

#include "predict/vector_math.h"

namespace llamalloc {
namespace {

// z += x kernel.   x: [rows], kernel: [rows, n], z: [n]
[[gnu::noinline]] void add_product(float* __restrict z, const float* __restrict x,
                                   const float* __restrict kernel, uint32_t rows, uint32_t n) {
  for (uint32_t k = 0; k < rows; ++k, kernel += n)
    for (uint32_t j = 0; j < n; ++j) z[j] += x[k] * kernel[j];
}

void softmax(float* x, uint32_t n) {
  float largest = x[0], sum = 0;
  for (uint32_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  for (uint32_t i = 0; i < n; ++i) sum += x[i] = fast_exp(x[i] - largest);
  for (uint32_t i = 0; i < n; ++i) x[i] /= sum;
}

}  // namespace

bool BagOfFrames::init(const BagConfig& config, const BagWeights& weights, MetadataArena& arena) {
  config_ = config;
  weights_ = weights;
  frame_ = arena.make_array<float>(2 * config.embedding + config.hidden);
  if (frame_ == nullptr) return false;
  state_ = frame_ + config.embedding;
  hidden_ = state_ + config.embedding;
  return true;
}

void BagOfFrames::run(const uint32_t* ids, uint32_t count, uint32_t size_row, float* probability) {
  const uint32_t E = config_.embedding, H = config_.hidden, C = config_.classes;
  memset(state_, 0, E * sizeof(float));
  uint32_t depth = 0, known = 0;
  for (uint32_t t = 0; t < count && depth < config_.depths; ++t) {
    if (ids[t] == kSeparatorId) {
      add_frame(depth++, known);
      known = 0;
    } else if (ids[t] != kUnknownId) {
      const float* vector = weights_.embedding + size_t{ids[t]} * E;
      for (uint32_t j = 0; j < E; ++j) frame_[j] += vector[j];
      ++known;
    }
  }
  if (depth < config_.depths) add_frame(depth, known);
  memcpy(hidden_, weights_.size_bias + size_t{size_row} * H, H * sizeof(float));
  add_product(hidden_, state_, weights_.hidden_kernel, E, H);
  for (uint32_t j = 0; j < H; ++j) hidden_[j] = hidden_[j] < 0 ? 0 : hidden_[j];
  memcpy(probability, weights_.dense_bias, C * sizeof(float));
  add_product(probability, hidden_, weights_.dense_kernel, H, C);
  softmax(probability, C);
}

[[gnu::noinline]] void BagOfFrames::add_frame(uint32_t depth, uint32_t known) {
  if (known == 0) return;
  const uint32_t E = config_.embedding;
  const float* scale = weights_.depth_scale + size_t{depth} * E;
  const float share = 1 / __builtin_sqrtf(static_cast<float>(known));
  for (uint32_t j = 0; j < E; ++j) state_[j] += scale[j] * frame_[j] * share;
  memset(frame_, 0, E * sizeof(float));
}

}  // namespace llamalloc
