// SPDX-License-Identifier: Apache-2.0
// What a round of the learner reads of the profiler: one row for each context of this run.
//
//   profiler: deaths of a context, and its samples that are alive
//     --> counts by class, all halved so many times that each fits    (evidence, shift)
//
// Samples that were certain (firsts) count where there are few others.
#pragma once

#include "learning/evidence.h"
#include "os/arena.h"
#include "predict/context_tree.h"
#include "profile/profiler.h"

namespace llamalloc {

// And how deep into its stack the nodes have come.
struct LearnerRow {
  Evidence evidence;
  Evidence earlier;                       // deaths before this window
  Evidence firsts;                        // of samples that were certain
  uint32_t young[kTimedClasses], elders;  // not halved
  uint32_t stack;
  uint64_t bucket;
  ContextPath path{0, 0};
  double live;      // bytes
  uint32_t alive;   // samples
  uint32_t chance;  // any number: of this context the same in each round
  int shift;        // counts are divided by two to this, so that they fit
  bool has_firsts;  // among its evidence
  uint32_t node;
  bool done;

  void take_in_ages();
};

struct LearnerRows {
  LearnerRow* row = nullptr;
  uint32_t count = 0;
  double live = 0;       // bytes
  uint32_t staying = 0;  // samples alive, of contexts that the last round knew to stay

  // Of the first `most` contexts, in scratch. False: no memory.
  bool gather(Profiler& profiler, uint32_t most, MetadataArena& scratch, Nanos now, Nanos began);

 private:
  void count_deaths(LifetimeTable& table);
  void count_ages(Profiler& profiler, Nanos now, Nanos elder);
};

}  // namespace llamalloc
