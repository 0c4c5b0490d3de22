// SPDX-License-Identifier: Apache-2.0
// The paper's model (ASPLOS 2020, section 4): embedding, one LSTM layer, dense layer, softmax.
//
//   h = c = 0
//   for each token x:   z = [embedding[x], h] kernel + bias          z = i | f | g | o, each [H]
//                       c = sigmoid(f) c + sigmoid(i) tanh(g)
//                       h = sigmoid(o) tanh(c)
//   probability = softmax(h dense_kernel + dense_bias)
//
// The same formulas as contracts/model_format.md; equal to the trainer's within 1e-5.
// The embedding's part of z does not depend on h, so it is computed for kBatch tokens at once:
// that part of the kernel is then read once per batch and not once per token.
#pragma once

#include <cstdint>

#include "os/arena.h"

namespace llamalloc {

struct LstmConfig {
  uint32_t vocabulary = 0;  // V
  uint32_t embedding = 0;   // E
  uint32_t hidden = 0;      // H
  uint32_t classes = 0;     // C
};

// All row-major, borrowed from the model file.
struct LstmWeights {
  const float* embedding = nullptr;     // [V, E]
  const float* kernel = nullptr;        // [E + H, 4H]
  const float* bias = nullptr;          // [4H]
  const float* dense_kernel = nullptr;  // [H, C]
  const float* dense_bias = nullptr;    // [C]
};

struct LstmState {
  static constexpr uint32_t kBatch = 8;

  float* h = nullptr;  // [H]
  float* c = nullptr;  // [H]
  float* z = nullptr;  // [kBatch, 4H]
};

// One user at a time: the state is scratch memory.
class Lstm {
 public:
  // False if the arena has no memory. The weights must outlive the object.
  bool init(const LstmConfig& config, const LstmWeights& weights, MetadataArena& arena);

  // probability: [C]. Ids must be below V; no token at all is the state h = 0.
  void run(const uint32_t* ids, uint32_t count, float* probability);

  // For tests and the benchmark: use the code without AVX2.
  void use_baseline() { use_avx2_ = false; }
  bool uses_avx2() const { return use_avx2_; }
  const LstmConfig& config() const { return config_; }

 private:
  LstmConfig config_;
  LstmWeights weights_;
  LstmState state_;
  bool use_avx2_ = false;
};

}  // namespace llamalloc
