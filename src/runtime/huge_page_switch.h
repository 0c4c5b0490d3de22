// SPDX-License-Identifier: Apache-2.0
// Whether the process gets huge pages: the administrator, or the process itself, may have switched
// them off (os/system_facts.h). We ask the system at start, and the worker asks once a second,
// since both may do it later. Once the program has installed a filter for system calls we do not
// ask any more: the filter may kill the process for an unexpected call. Then the last answer stays
// valid.
#pragma once

namespace llamalloc {

// Asks the system, and tells the heap. Once the worker may run the caller holds
// background.work_lock, as below.
void look_at_huge_page_switch();
// The system's setting as it holds for this process (os/system_facts.h). The caller holds
// background.work_lock: a child that is forked meanwhile would have the descriptor of a file.
const char* huge_pages_state();

}  // namespace llamalloc
