// SPDX-License-Identifier: Apache-2.0
// The statistics of this process: telemetry, applied to runtime/process.h.
#pragma once

#include "telemetry/telemetry.h"

namespace llamalloc {

extern Telemetry telemetry;

Figures current_figures();
// For telemetry.give() after use; null: no memory.
ProcessSnapshot* take_process_snapshot(const PeakFigures* peak = nullptr);

}  // namespace llamalloc
