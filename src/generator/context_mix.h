// SPDX-License-Identifier: Apache-2.0
// Makes calling contexts out of measured sizes: what a size distribution lacks.
//
//   size row, often allocated  ->  several contexts of that size, with means of their own
//   neighbouring rare rows     ->  one context of those sizes
//
// Over all contexts of a row, rate and mean lifetime (live / rate) stay what was measured, but for
// `session` contexts, whose lives end with the wave of load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/alias_table.h"
#include "generator/lifetime.h"
#include "generator/size_rates.h"

namespace llamalloc::generator {

struct MixOptions {
  uint32_t contexts = 400;  // about
  double heavy = 0.1;       // shares of the contexts
  double sessions = 0.1;
  double batches = 0.2;    // that allocate many objects at once, which die together
  double resizing = 0.05;  // whose objects grow by realloc
  uint64_t seed = 1;
};

struct Context {
  double rate = 0;  // objects a second, at a load of 1
  double live = 0;  // objects on average
  Lifetime lifetime;
  double batch = 1;  // objects at once, on average
  bool resizes = false;
  std::vector<uint64_t> sizes;
  AliasTable size_by_rate;          // over `sizes`; unused for a single one
  std::vector<std::string> frames;  // names of functions, the allocation site's first

  uint64_t draw_size(Random& random) const {
    return sizes.size() == 1 ? sizes[0] : sizes[size_by_rate.draw(random)];
  }
};

std::vector<Context> make_contexts(const std::vector<SizeRate>& rows, const MixOptions& options);

}  // namespace llamalloc::generator
