// SPDX-License-Identifier: Apache-2.0
// How much memory the system still lets the process take: limits of its control group and of every
// group above it, and the system's own account of pressure.
//
//   /proc/thread-self/cgroup     which group, of version 2 (0::PATH) and 1 (N:memory:PATH)
//   /proc/thread-self/mountinfo  where groups are mounted, and from which group on
//   MOUNT/PATH/..                version 2: memory.max, memory.high, memory.current
//                                version 1: memory.limit_in_bytes, memory.usage_in_bytes
//   memory.pressure              of the group, or else /proc/pressure/memory
//
// thread-self, as /proc/self is the main thread, which may have ended: then mountinfo is
// unreadable.
//
// Memory of files that the kernel can drop does not count as used: inactive_file, half of
// active_file and, in version 2, half of slab_reclaimable. No descriptor stays open. errno stays as
// it was.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

struct MemoryLimits {
  size_t limit = SIZE_MAX;  // the one with the least room; SIZE_MAX: none
  size_t room = SIZE_MAX;   // bytes below it
  // The one with the least room by its size: a large group above a small one may be nearly full.
  size_t tightest = SIZE_MAX;
  size_t tightest_room = SIZE_MAX;
  uint32_t pressure = 0;    // share of the last 10 s in which somebody waited for memory, 1/100 %
  uint32_t unreadable = 0;  // files that are there, but cannot be read or hold no number
};

// root: a folder that stands for /, for tests; here and below.
MemoryLimits read_memory_limits(const char* root = "");
// What the process's own group is charged for: its usage less the page cache of files; memory that
// is shared counts. SIZE_MAX: not known, or it is the group of the whole system.
size_t read_memory_charge(const char* root = "");

}  // namespace llamalloc
