// SPDX-License-Identifier: Apache-2.0
// Whether the process gets huge pages: it may have switched them off for itself, or the
// administrator for all (os/system_facts.h). We ask the system at start, and the worker asks once a
// second, since both may happen later. The setting for all is in a file, which is read only in a
// process of some size (limits.h), every ten seconds. Once the program has installed a filter for
// system calls we do not ask any more: the filter may kill the process for an unexpected call. Then
// the last answer stays valid.
#pragma once

#include "base/units.h"

namespace llamalloc {

// Asks the system, and tells the heap. Called by the worker, and before there is one.
void look_at_huge_page_switch(Nanos now);
// What is in force for this process (os/system_facts.h). The caller holds background.work_lock: a
// child that is forked meanwhile would have the descriptor of a file.
const char* huge_pages_state();

}  // namespace llamalloc
