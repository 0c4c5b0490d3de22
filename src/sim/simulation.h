// SPDX-License-Identifier: Apache-2.0
// The second pass over a trace: a policy places every object by its predicted class, and the memory
// cost is sampled.
//
//   1st pass: events -> survey (lifetimes, contexts, live bytes) -> predictor: a class for each
//             placement
//   2nd pass: events + classes -> simulation -> policy -> addresses -> page ledger -> samples
//
// Moments: `samples` of them evenly over the trace, the peak, every drop, the end. At moments that
// are not samples, a walk over the live objects finds what outlivers pin and makes a map of pages
// and blocks. An outliver is an object older than the bound of its predicted class. If all objects
// of a huge page are outlivers, they pin it: the page would be free if they had died in time.
#pragma once

#include <string>
#include <vector>

#include "sim/pace.h"
#include "sim/policy.h"
#include "sim/predictor.h"
#include "sim/survey.h"

namespace llamalloc::sim {

// Moments of the same time are reported in this order.
enum class MomentKind : uint8_t { sample, peak, drop, end };

struct Moment {
  uint64_t time = 0;
  MomentKind kind = MomentKind::sample;
  uint64_t live = 0;  // bytes asked for
  uint64_t objects = 0;
  Footprint footprint;
  Losses losses;
  // The rest is known where kind is not `sample`.
  uint64_t pinned = 0;  // bytes, a part of free slots and free blocks
  uint64_t pinned_pages = 0;
  uint64_t outlivers = 0;  // objects
  // One string a huge page in use, one letter a block: '.' free, 'a' + class of the longest-lived
  // object in it, upper case if an outliver is among them. At most kMapPages pages.
  std::vector<std::string> map;
  uint64_t map_pages = 0;  // all pages in use, also those not in the map
};
inline constexpr size_t kMapPages = 512;

struct ClassCount {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

struct Outcome {
  std::vector<Moment> moments;
  uint64_t peak_footprint = 0;  // bytes in 2 MiB pages and direct mappings
  uint64_t acquired = 0;        // huge pages, counting every time
  uint64_t events = 0;
  ClassCount classes[kLifetimeClasses];
  std::vector<uint8_t> chosen;  // by a policy that learns: the class of each placement
  std::vector<GateNote> gate;   // and what its gate decided
  ReleaseReport releases;
};

struct RunOptions {
  size_t samples = 500;
  Pace pace;
  void (*progress)(double share, void* context) = nullptr;
  void* context = nullptr;
};

// Runs the surveyed trace. False: `error` says why.
bool simulate(TraceInput& input, const Survey& survey, const Prediction& prediction, Policy& policy,
              const RunOptions& options, Outcome* outcome, std::string* error);

}  // namespace llamalloc::sim
