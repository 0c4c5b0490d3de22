// SPDX-License-Identifier: Apache-2.0
// Learning in process (option `learn`). The worker turns samples into a tree of contexts
// (policy/learner.h), lets the gate decide whether objects are placed by it, and keeps both in the
// state file. The tree answers new contexts in their own thread (policy/context_resolver.h), in the
// next run from the first allocation on.
#pragma once

#include "base/units.h"

namespace llamalloc {

// From the constructor, when options are read.
void start_learning();
bool is_learning();
// What the gate says now, or false while nothing is learned.
bool gate_is_on();
// Starts samples as soon as they are worth it; at the start and by learn_if_due. already: something
// else wants them, too, and started them, or somebody switched them on or off.
void sample_for_learning(bool already);
// By the worker, under its lock, whenever it is awake.
void learn_if_due(Nanos now);
void save_learned_at_exit();
void learning_after_fork_in_child();

// The sentence of the gate where it is kept: an array of texts of equal room, and which is valid.
struct GateSentences {
  const char* texts;  // null: nothing is learned
  size_t room;
  const void* valid;  // uint32_t
};
GateSentences gate_sentences();
// For statistics: "off", "on", "on: FILE", or "on: REASON why nothing is kept".
const char* learning_state();
// What the gate decided, in a sentence; empty while nothing is learned.
const char* segregation_state();

}  // namespace llamalloc
