// SPDX-License-Identifier: Apache-2.0
// The statistics of this process: telemetry, applied to runtime/process.h.
#pragma once

#include "telemetry/telemetry.h"

namespace llamalloc {

extern Telemetry telemetry;

Figures current_figures();
// For telemetry.give() after use; null: no memory. charge: of the control group, or SIZE_MAX.
ProcessSnapshot* take_process_snapshot(size_t charge = SIZE_MAX, const PeakFigures* peak = nullptr);

}  // namespace llamalloc
