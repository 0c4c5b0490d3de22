// SPDX-License-Identifier: Apache-2.0
// Loads made up on the spot, for tests and first tries: no file, always the same events.
//
//   two-class   requests of short-lived objects; after each a long-lived one stays
//   waves       connections come and go in waves; each allocates short-lived objects, a few of
//               which stay; some buffers grow; four threads
//   random      sizes, alignments, lifetimes and resizes at random: for tests of policies
#pragma once

#include <memory>
#include <string>

#include "sim/trace_input.h"

namespace llamalloc::sim {

inline constexpr const char* kSyntheticNames = "two-class, waves, random";

// Null for an unknown name. `events`: about so many.
std::unique_ptr<TraceInput> make_synthetic_load(const std::string& name, uint64_t events,
                                                uint64_t seed = 1);

// Events that are given, for tests.
std::unique_ptr<TraceInput> make_input(std::vector<trace::Event> events);

}  // namespace llamalloc::sim
