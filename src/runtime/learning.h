// SPDX-License-Identifier: Apache-2.0
// Learning in process (option `learn`), and whether objects are placed by lifetime. The worker
// turns samples into a tree of contexts (learning/learner.h), lets the gate decide whether objects
// are placed by it, and keeps both in the state file. The tree answers new contexts in their own
// thread (placement/context_resolver.h), in the next run from the first allocation on.
//
// With a model and without learning the gate decides by what samples say of the model. Where a
// profile is written, it only measures: what it found goes into the profile.
#pragma once

#include "base/units.h"

namespace llamalloc {

// From the constructor, when options and model are read.
void start_learning();
bool is_learning();
// Whether objects are to be placed by lifetime now.
bool places_by_lifetime();
// Starts samples as soon as they are worth it; at the start and by learn_if_due. already: something
// else wants them, too, and started them, or somebody switched them on or off.
void sample_for_learning(bool already);
void drop_model();  // nobody will evaluate it
// By the worker, under its lock, whenever it is awake.
void learn_if_due(Nanos now);
void save_learned_at_exit();
void learning_after_fork_in_child();

// The sentence of the gate where it is kept: an array of texts of equal room, and which is valid.
struct GateSentences {
  const char* texts;  // null: there is nothing to place by
  size_t room;
  const void* valid;  // uint32_t
};
GateSentences gate_sentences();
// What a profile says of the load (GateKept as numbers); empty: nothing was measured.
const char* measured_for_profile();
// For statistics: "off", "on", "on: FILE", or "on: REASON why nothing is kept".
const char* learning_state();
// What the gate decided, in a sentence; empty where there is nothing to place by.
const char* segregation_state();

}  // namespace llamalloc
