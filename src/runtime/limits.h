// SPDX-License-Identifier: Apache-2.0
// The memory limits of this process: of its control groups, of the system, of its options. Their
// files are read by the worker only, and not under a filter of system calls that the program
// installed itself.
#pragma once

#include "engine/world.h"

namespace llamalloc {

// A process that backs less has nothing to give that would help, and no descriptor of ours comes
// and goes beside those of a shell, or of a server that is just starting.
inline constexpr size_t kWorthReading = size_t{32} << 20;

// For the worker.
Pressure memory_pressure(Nanos now);
// What the process's control group is charged for; SIZE_MAX: not known. Reads a few files, so the
// caller holds background.work_lock: a forked child would have their descriptors.
size_t memory_charge();

}  // namespace llamalloc
