// SPDX-License-Identifier: Apache-2.0
// Facts about the system that we run on, read without allocation.
#pragma once

namespace llamalloc {

// The setting of transparent huge pages: "always", "madvise", "never" or "unknown".
const char* transparent_huge_pages();
// The process has privileges that its user has not (setuid, capabilities).
bool has_raised_privileges();

}  // namespace llamalloc
