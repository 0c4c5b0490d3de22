// SPDX-License-Identifier: Apache-2.0
// What was measured of a program: how often it allocates each size, and how many of it are live.
// The file: workloads/fleetbench/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llamalloc::generator {

struct SizeRate {
  uint64_t size;  // bytes
  double rate;    // allocations a second
  double live;    // objects, on average
};

// Empty, with a message that names the line and the cure, if it cannot be read.
std::vector<SizeRate> read_size_rates(const std::string& path, std::string* error);

// Bytes live on average.
double live_bytes(const std::vector<SizeRate>& rows);

}  // namespace llamalloc::generator
