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
  double seconds = 0;          // processor time of the second pass
  bool ended_in_order = true;  // TraceInput
};

std::string to_json(const RunNames& names, const Survey& survey, const Prediction& prediction,
                    const Outcome& outcome);

// Sums over the evenly spaced samples, and what follows from them.
struct Totals {
  double average = 0;        // resident / live bytes, both averaged over time
  double average_small = 0;  // the same in 4 KiB pages
  double drop = 0;           // over the drops: sum of resident / sum of live bytes; 0: no drop
  double drop_small = 0;
  double worst_drop = 0;
  double peak_ratio = 0;  // highest footprint in 2 MiB pages / highest live bytes
  double coverage = 0;    // share of resident memory on huge pages, averaged
};
Totals totals(const Survey& survey, const Outcome& outcome);

}  // namespace llamalloc::sim
