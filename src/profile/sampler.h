// SPDX-License-Identifier: Apache-2.0
// Poisson sampling by bytes: every allocated byte is a sampling point with probability 1/interval,
// independently of all others; an object is sampled if it holds at least one such point.
//
//   bytes   |----A----|--B--|---------C---------|-D-|
//   points                            ^  ^              --> C is sampled, once
//
// The owner keeps a countdown: it starts at next_interval(), each allocation subtracts
// sampled_bytes(size), and the one that brings it to 0 or below is sampled and draws anew. The
// distance between points is exponential and rounded up, so that exactly
//
//   P(an object of s bytes is sampled) = 1 - exp(-s / interval)
//
// whatever was allocated before it. At an interval of 512 KiB:
//
//   s            16 B        1 KiB       64 KiB    512 KiB   1 MiB    4 MiB
//   P            0.0000305   0.00195     0.1175    0.6321    0.8647   0.99966
//   weight 1/P   32768.5     512.5       8.51      1.582     1.157    1.0003
//
// The weights of the sampled objects add up to an unbiased estimate of how many there were; the
// owner may change the interval at any time, as long as each sample keeps the weight of its own.
// (The scheme of tcmalloc's sampler.h.) No libm: see minus_expm1 and natural_log.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

// Bytes that an allocation takes off the countdown: its size, and one for malloc(0).
constexpr int64_t sampled_bytes(size_t size) {
  return size == 0 ? 1 : static_cast<int64_t>(size & INT64_MAX);
}

// Bytes up to and including the next sampling point, at least 1; mean_bytes (>= 1) on average. The
// allocation that takes a countdown from here to 0 or below is sampled: who tests for below 0 only
// starts one lower, or 16-byte objects would be sampled 1/16 too seldom.
// rng_state: any value; two threads should start from different ones.
int64_t next_interval(uint64_t& rng_state, double mean_bytes);

// How many allocated objects a sampled one of `size` bytes stands for: 1 / (1 - exp(-size /
// interval)), at least 1.
double sample_weight(size_t size, double interval);

// ln(x) for finite x > 0; relative error below 1e-12.
double natural_log(double x);
// 1 - exp(-x) for x >= 0; relative error below 1e-12, also for tiny x.
double minus_expm1(double x);

}  // namespace llamalloc
