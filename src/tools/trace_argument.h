// SPDX-License-Identifier: Apache-2.0
// A trace as named on a command line: a file, or synthetic:NAME[:EVENTS].
#pragma once

#include <memory>
#include <string>

#include "sim/synthetic_load.h"

namespace llamalloc {

// Null: `error` says why.
std::unique_ptr<sim::TraceInput> open_trace(const std::string& name, std::string* error);

}  // namespace llamalloc
