// SPDX-License-Identifier: Apache-2.0
// Draws an index by weight in constant time (Walker 1977, Vose 1991).
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "generator/random.h"

namespace llamalloc::generator {

class AliasTable {
 public:
  AliasTable() = default;
  // At least one weight is above 0, none below.
  explicit AliasTable(const std::vector<double>& weights) : cells_(weights.size()) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<double> share(weights.size());
    std::vector<uint32_t> poor, rich;
    for (uint32_t i = 0; i < weights.size(); ++i) {
      share[i] = weights[i] / sum * static_cast<double>(weights.size());
      (share[i] < 1 ? poor : rich).push_back(i);
    }
    while (!poor.empty() && !rich.empty()) {
      const uint32_t small = poor.back(), large = rich.back();
      poor.pop_back();
      cells_[small] = {share[small], large};
      share[large] -= 1 - share[small];
      if (share[large] < 1) {
        rich.pop_back();
        poor.push_back(large);
      }
    }
    for (const uint32_t i : poor) cells_[i] = {1, i};
    for (const uint32_t i : rich) cells_[i] = {1, i};
  }

  uint32_t draw(Random& random) const {
    const uint32_t i = random.below(static_cast<uint32_t>(cells_.size()));
    return random.unit() < cells_[i].own ? i : cells_[i].other;
  }

 private:
  struct Cell {
    double own = 1;
    uint32_t other = 0;
  };
  std::vector<Cell> cells_;
};

}  // namespace llamalloc::generator
