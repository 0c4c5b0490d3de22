// SPDX-License-Identifier: Apache-2.0
// A simulation's result as JSON; python/llamalloc/running/simulation.py documents the fields.
#pragma once

#include <string>

#include "sim/simulation.h"

namespace llamalloc::sim {

struct RunNames {
  std::string trace;
  std::string policy;
  std::string predictor;
  double error = 0;
  uint64_t seed = 1;
  double seconds = 0;  // that the second pass took, of processor time
};

std::string to_json(const RunNames& names, const Survey& survey, const Prediction& prediction,
                    const Outcome& outcome);

// Sums over the evenly spaced samples, and what follows from them.
struct Totals {
  double average_huge = 0;   // footprint in 2 MiB pages by what is live, both averaged over time
  double average_small = 0;  // in 4 KiB pages
  double drop_huge = 0;      // over the drops: sum of footprints by sum of live; 0: no drop
  double drop_small = 0;
  double worst_drop = 0;
  double peak_ratio = 0;  // highest footprint by highest live
  double coverage = 0;    // of what is resident, averaged: share on huge pages
};
Totals totals(const Survey& survey, const Outcome& outcome);

}  // namespace llamalloc::sim
