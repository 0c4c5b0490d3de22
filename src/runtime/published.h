// SPDX-License-Identifier: Apache-2.0
// A table of the addresses of our counters, for readers outside the process
// (contracts/published_block.md). They read the counters themselves, through the kernel, as a
// debugger would. So it takes no thread, no descriptor and no time, and only who may debug the
// process can do it: the same user, unless the system forbids it, and root.
//
//   .note.llamalloc (in the file) --> llamalloc_published --> rows: name, address, shape
#pragma once

namespace llamalloc {

// Once, at start.
void publish_counters();

}  // namespace llamalloc
