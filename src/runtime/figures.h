// SPDX-License-Identifier: Apache-2.0
// What this process shows of itself: telemetry over the parts of runtime/process.h.
#pragma once

#include "telemetry/telemetry.h"

namespace llamalloc {

extern Telemetry telemetry;

Figures current_figures();
// For telemetry.give() after use; null: no memory.
ProcessSnapshot* take_process_snapshot();

}  // namespace llamalloc
