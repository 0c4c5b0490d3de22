// SPDX-License-Identifier: Apache-2.0
// Synthetic loads for tests and first experiments: they need no file and always give the same
// events.
//
//   two-class   requests with short-lived objects; each request leaves one long-lived object
//   waves       connections come and go in waves; each allocates short-lived objects, a few of
//               which stay; some buffers grow; four threads
//   random      sizes, alignments, lifetimes and resizes at random: for tests of policies
#pragma once

#include <memory>
#include <string>

#include "sim/trace_input.h"

namespace llamalloc::sim {

inline constexpr const char* kSyntheticNames = "two-class, waves, random";

// Null for an unknown name. `events`: the approximate number.
std::unique_ptr<TraceInput> make_synthetic_load(const std::string& name, uint64_t events,
                                                uint64_t seed = 1);

// The given events, for tests.
std::unique_ptr<TraceInput> make_input(std::vector<trace::Event> events);

}  // namespace llamalloc::sim
