// SPDX-License-Identifier: Apache-2.0
// The statistics of this process: telemetry, applied to runtime/process.h.
#pragma once

#include "telemetry/telemetry.h"

namespace llamalloc {

extern Telemetry telemetry;

Figures current_figures();
// What is read from the system's files.
struct FromSystem {
  const char* hugepages;
  size_t charge = SIZE_MAX;  // of the control group; SIZE_MAX: not known
};
// The process begins now: at the start, and in a forked child.
void note_birth();
// For who does not hold background.work_lock: it is held meanwhile.
FromSystem read_system(bool with_charge = false);
// For telemetry.give() after use; null: no memory.
ProcessSnapshot* take_process_snapshot(const FromSystem& system, const PeakFigures* peak = nullptr);

}  // namespace llamalloc
