// SPDX-License-Identifier: Apache-2.0
// What the system grants. Whether the process gets huge pages: it may have switched them off for
// itself, or the administrator for all (os/system_facts.h). And whether the system counts what is
// committed. We ask the system at start, and the worker asks once a second, since both may change
// later. The administrator's settings are in files, which are read only in a process of some size
// (limits.h), every ten seconds. Once the program has installed a filter for system calls we do not
// ask any more: the filter may kill the process for an unexpected call. Then the last answer stays
// valid.
#pragma once

#include "base/units.h"

namespace llamalloc {

// Asks the system, and tells the heap. Called by the worker, and before there is one.
void look_at_system_settings(Nanos now);
// Whether huge pages are in force for this process (os/system_facts.h). The caller holds
// background.work_lock: a child that is forked meanwhile would have the descriptor of a file.
const char* huge_pages_state();

}  // namespace llamalloc
