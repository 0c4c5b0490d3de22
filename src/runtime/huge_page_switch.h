// SPDX-License-Identifier: Apache-2.0
// Whether the process switched huge pages off for itself (os/system_facts.h): asked at start and,
// as a program may do it later, once a second by the worker; not once the program filters system
// calls, since a filter may end the process for one that it does not know. Then the last answer
// stands.
#pragma once

namespace llamalloc {

// Asks the system, and tells the heap.
void look_at_huge_page_switch();
// The system's setting as it holds for this process (os/system_facts.h).
const char* huge_pages_state();

}  // namespace llamalloc
