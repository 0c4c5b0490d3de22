// SPDX-License-Identifier: Apache-2.0
#include "predict/lstm.h"

#include <cstring>

#include "os/cpu.h"
#include "predict/vector_math.h"

// The kernels are inlined twice, into the baseline and into the AVX2 variant.
#define LLAMALLOC_INLINE [[gnu::always_inline]] inline

namespace llamalloc {
namespace {

// z += x[0] row 0 + ... + x[3] row 3.   z: [n], rows: [4, n]
LLAMALLOC_INLINE void add_4_rows(float* __restrict z, const float* __restrict x,
                                 const float* __restrict rows, uint32_t n) {
  const float *r0 = rows, *r1 = rows + n, *r2 = rows + 2 * n, *r3 = rows + 3 * n;
  for (uint32_t j = 0; j < n; ++j)
    z[j] += x[0] * r0[j] + x[1] * r1[j] + x[2] * r2[j] + x[3] * r3[j];
}

LLAMALLOC_INLINE void add_row(float* __restrict z, float x, const float* __restrict row,
                              uint32_t n) {
  for (uint32_t j = 0; j < n; ++j) z[j] += x * row[j];
}

// z += x kernel.   x: [rows], kernel: [rows, n], z: [n]
LLAMALLOC_INLINE void add_product(float* z, const float* x, const float* kernel, uint32_t rows,
                                  uint32_t n) {
  uint32_t k = 0;
  for (; k + 4 <= rows; k += 4) add_4_rows(z, x + k, kernel + size_t{k} * n, n);
  for (; k < rows; ++k) add_row(z, x[k], kernel + size_t{k} * n, n);
}

// c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c).   z: [4H]
LLAMALLOC_INLINE void apply_gates(const float* __restrict z, float* __restrict c,
                                  float* __restrict h, uint32_t H) {
  const float *i = z, *f = z + H, *g = z + 2 * H, *o = z + 3 * H;
  for (uint32_t j = 0; j < H; ++j) {
    c[j] = sigmoid(f[j]) * c[j] + sigmoid(i[j]) * fast_tanh(g[j]);
    h[j] = sigmoid(o[j]) * fast_tanh(c[j]);
  }
}

void add_product_baseline(float* z, const float* x, const float* kernel, uint32_t rows,
                          uint32_t n) {
  add_product(z, x, kernel, rows, n);
}
void apply_gates_baseline(const float* z, float* c, float* h, uint32_t H) {
  apply_gates(z, c, h, H);
}
LLAMALLOC_TARGET_AVX2 void add_product_avx2(float* z, const float* x, const float* kernel,
                                            uint32_t rows, uint32_t n) {
  add_product(z, x, kernel, rows, n);
}
LLAMALLOC_TARGET_AVX2 void apply_gates_avx2(const float* z, float* c, float* h, uint32_t H) {
  apply_gates(z, c, h, H);
}

// Nearly all of the time is spent in these two.
struct Kernels {
  decltype(&add_product_baseline) add_product;
  decltype(&apply_gates_baseline) apply_gates;
};
constexpr Kernels kBaseline = {add_product_baseline, apply_gates_baseline};
constexpr Kernels kAvx2 = {add_product_avx2, apply_gates_avx2};

// z[t] = embedding[ids[t]] kernel[0..E) + bias for each token of a batch.   z: [count, 4H]
void project(const Kernels& kernels, const LstmConfig& config, const LstmWeights& weights,
             const uint32_t* ids, uint32_t count, float* z) {
  const uint32_t E = config.embedding, n = 4 * config.hidden;
  for (uint32_t t = 0; t < count; ++t) memcpy(z + size_t{t} * n, weights.bias, n * sizeof(float));
  for (uint32_t k = 0; k < E; k += 4) {
    const uint32_t rows = E - k < 4 ? E - k : 4;
    for (uint32_t t = 0; t < count; ++t)
      kernels.add_product(z + size_t{t} * n, weights.embedding + size_t{ids[t]} * E + k,
                          weights.kernel + size_t{k} * n, rows, n);
  }
}

void softmax(float* x, uint32_t n) {
  float largest = x[0], sum = 0;
  for (uint32_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  for (uint32_t i = 0; i < n; ++i) sum += x[i] = fast_exp(x[i] - largest);
  for (uint32_t i = 0; i < n; ++i) x[i] /= sum;
}

void run_lstm(const Kernels& kernels, const LstmConfig& config, const LstmWeights& weights,
              const LstmState& s, const uint32_t* ids, uint32_t count, float* probability) {
  const uint32_t H = config.hidden, n = 4 * H;
  const float* hidden_kernel = weights.kernel + size_t{config.embedding} * n;  // [H, 4H]
  memset(s.h, 0, H * sizeof(float));
  memset(s.c, 0, H * sizeof(float));
  for (uint32_t start = 0; start < count; start += LstmState::kBatch) {
    const uint32_t batch = count - start < LstmState::kBatch ? count - start : LstmState::kBatch;
    project(kernels, config, weights, ids + start, batch, s.z);
    for (uint32_t t = 0; t < batch; ++t) {
      float* z = s.z + size_t{t} * n;
      kernels.add_product(z, s.h, hidden_kernel, H, n);
      kernels.apply_gates(z, s.c, s.h, H);
    }
  }
  memcpy(probability, weights.dense_bias, config.classes * sizeof(float));
  kernels.add_product(probability, s.h, weights.dense_kernel, H, config.classes);
  softmax(probability, config.classes);
}

}  // namespace

bool Lstm::init(const LstmConfig& config, const LstmWeights& weights, MetadataArena& arena) {
  const size_t H = config.hidden;
  constexpr size_t kFloats = 2 + 4 * LstmState::kBatch;
  auto* memory = static_cast<float*>(arena.allocate(H * kFloats * sizeof(float), kCacheLine));
  if (memory == nullptr) return false;
  config_ = config;
  weights_ = weights;
  state_ = {memory, memory + H, memory + 2 * H};
  use_avx2_ = cpu_runs_avx2();
  return true;
}

void Lstm::run(const uint32_t* ids, uint32_t count, float* probability) {
  const Kernels& kernels = use_avx2_ ? kAvx2 : kBaseline;
  run_lstm(kernels, config_, weights_, state_, ids, count, probability);
}

}  // namespace llamalloc
