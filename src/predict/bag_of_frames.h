// SPDX-License-Identifier: Apache-2.0
// The network: a bag of frames. It has no order inside a frame, and no recurrence.
//
//   for each frame d < D, innermost first, of n known tokens:
//     state += depth_scale[d] * (embedding[x_1] + ... + embedding[x_n]) / sqrt(n)
//   hidden = max(0, state hidden_kernel + size_bias[size_row])
//   probability = softmax(hidden dense_kernel + dense_bias)
//
// `*` by element. The same formulas as contracts/model_format.md; equal to the trainer's within
// 1e-5. Why not the paper's LSTM: docs/accuracy.md, The network.
#pragma once

#include <bit>
#include <cstdint>

#include "base/size_bucket.h"
#include "os/arena.h"

namespace llamalloc {

struct BagConfig {
  uint32_t vocabulary = 0;  // V
  uint32_t embedding = 0;   // E
  uint32_t depths = 0;      // D
  uint32_t hidden = 0;      // H
  uint32_t classes = 0;     // C
};

// All row-major, borrowed from the model file.
struct BagWeights {
  const float* embedding = nullptr;      // [V, E]
  const float* depth_scale = nullptr;    // [D, E]
  const float* hidden_kernel = nullptr;  // [E, H]
  const float* size_bias = nullptr;      // [kSizeRows, H]
  const float* dense_kernel = nullptr;   // [H, C]
  const float* dense_bias = nullptr;     // [C]
};

inline constexpr uint32_t kUnknownId = 0;    // `<unk>`: counts as no token
inline constexpr uint32_t kSeparatorId = 1;  // `@`: the next frame begins
inline constexpr uint32_t kSizeRows = 64;

// Two rows for each doubling of a size bucket; the last is for 4 GiB and more.
constexpr uint32_t size_row(uint64_t size) {
  const uint64_t bucket = size_bucket(size);
  const auto log = static_cast<uint32_t>(std::bit_width(bucket)) - 1;
  const uint32_t row = 2 * log + (bucket >> (log - 1) & 1);
  return row < kSizeRows ? row : kSizeRows - 1;
}
static_assert(size_row(0) == 8 && size_row(32) == 10 && size_row(48) == 11 &&
              size_row(~uint64_t{0}) == kSizeRows - 1);

// One user at a time: it holds scratch memory.
class BagOfFrames {
 public:
  // False if the arena has no memory. The weights must outlive the object.
  bool init(const BagConfig& config, const BagWeights& weights, MetadataArena& arena);

  // ids: of the tokens of all frames, without the size token; each below V. probability: [C].
  void run(const uint32_t* ids, uint32_t count, uint32_t size_row, float* probability);

  const BagConfig& config() const { return config_; }

 private:
  void add_frame(uint32_t depth, uint32_t known);

  BagConfig config_;
  BagWeights weights_;
  float* frame_ = nullptr;   // [E]; zero between frames
  float* state_ = nullptr;   // [E]
  float* hidden_ = nullptr;  // [H]
};

}  // namespace llamalloc
