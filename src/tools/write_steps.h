// SPDX-License-Identifier: Apache-2.0
// A trace as the steps of llamalloc-replay (replay_steps.h).
#pragma once

#include <string>

#include "sim/survey.h"

namespace llamalloc {

// survey: of the same trace. False: `error` says why.
bool write_steps(sim::TraceInput& input, const sim::Survey& survey, const std::string& path,
                 std::string* error);

}  // namespace llamalloc
