// SPDX-License-Identifier: Apache-2.0
// What one build of a program learned, in the next one. Each node whose frames are all found in the
// functions that are loaded (learned_frames.h) gets a twin with the key that it has here.
//
//   site f+0x25, 64 bytes, caller g+0x31   in the file, of the old build
//        |                     |
//   site f'+0x25, 64 bytes, caller g'+0x31 added: here g and f lie elsewhere, and did not change
//
// Twice is as good as once: a twin that is there already stays as it is.
#pragma once

#include "learning/learned_state.h"
#include "learning/loaded_functions.h"

namespace llamalloc {

// The share of what the last runs saw (samples of contexts) that is known here, 0 to 1. Without
// memory nothing is added, and it is 0.
double carry_over(LearnedState* state, LoadedFunctions& functions, PageSource& scratch);

}  // namespace llamalloc
