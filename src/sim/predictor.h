// SPDX-License-Identifier: Apache-2.0
// Predictors: each gives a table of lifetime classes, one for each placement of a trace.
//
//   oracle        the class of the true lifetime. For an object that is alive when the trace ends:
//                 estimated from objects of its context that reached the same age
//   site[:Q]      by innermost frame and size bucket: the shortest class that a share of at most
//                 1 - Q outlives
//   exact[:Q]     the same by the whole stack
//   model:FILE    a model of `llamalloc train`, by the names of the stack's frames
//   constant:C    always class C of contracts/lifetime_classes.def
//   none          no prediction: everything to the group `unknown`
//   online[:N]    no table: the policy learns while the trace runs, as a process does with the
//   option
//                 `learn`; N bytes between samples (sample_interval)
//   state:FILE    the same, and it begins with what earlier runs left in FILE
//
// The default Q is 0.9999: the tail rule of python/llamalloc/learning/labels.py, with classes
// instead of histogram buckets. Both give the same for objects that died or stayed
// (contracts/golden/labels.json), and for contexts that become `mixed`. Young objects, still alive
// at the end, are weighed there (Kaplan-Meier); here they count where they are more than 1 - Q.
// Tables answer `mixed` for contexts that they have not seen. Errors: a share of the contexts, or
// of the placements, gets a random other class.
#pragma once

#include <string>
#include <vector>

#include "base/lifetime_class.h"
#include "learning/gate.h"
#include "sim/survey.h"

namespace llamalloc::sim {

struct PredictorSpec {
  enum class Kind { oracle, site, exact, model, constant, none, online };
  Kind kind = Kind::oracle;
  double quantile = 0.9999;
  std::string model;
  LifetimeClass constant = LifetimeClass::mixed;
  std::string interval;          // online: as an option has it; empty: the default
  std::string state;             // online: empty: nothing was learned before
  double error = 0;              // share that gets a wrong class
  bool error_by_object = false;  // a share of placements, not of contexts
  uint64_t seed = 1;
};

// False: `error` says what is wrong with the text.
bool parse_predictor(const std::string& text, PredictorSpec* spec, std::string* error);

// A surveyed trace to learn from, and its stacks.
struct Learned {
  const Survey* survey;
  TraceInput* input;
};

struct Prediction {
  std::vector<uint8_t> classes;  // one a placement
  size_t known_contexts = 0;
  uint64_t outlived[kLifetimeClasses] = {};    // placements that outlived their class
  uint64_t placements[kLifetimeClasses] = {};  // by predicted class
  GateKept evidence;                           // model: of the file
};

// False: `error` says why (a model that does not load).
bool predict(const PredictorSpec& spec, const Learned& trace, const Learned& teacher,
             Prediction* prediction, std::string* error);

// Counts anew what *prediction->classes mean: a policy that learns gave others.
void count_classes(const Survey& survey, Prediction* prediction);

// How the objects of a context or site ended, by class; and the rule that makes a label from that.
struct Lives {
  uint64_t freed[kLifetimeClasses] = {};
  uint64_t elders = 0;                        // never freed, and old
  uint64_t in_flight[kLifetimeClasses] = {};  // never freed, young: by the class of their age
};
LifetimeClass label(const Lives& lives, double quantile);

}  // namespace llamalloc::sim
