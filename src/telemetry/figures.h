// SPDX-License-Identifier: Apache-2.0
// The statistics of the process. Every document of ours and every statistics function of glibc is
// made from them. All numbers about the heap come from one walk (telemetry.h), so sums agree:
//
//   sum of groups[g].allocated == allocated,  + direct_bytes == stats[allocated]
//   sum of free_slots_of == free_slots
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "heap/heap.h"

namespace llamalloc {

struct Figures {
  uint64_t stats[kStats] = {};
  GroupCounts groups[kPageGroups];
  size_t allocated = 0;     // bytes in slots and runs in use; includes what threads cache
  size_t pages_backed = 0;  // bytes of huge pages that hold objects or are kept empty
  size_t peak_backed = 0;   // the largest pages_backed among all calls so far
  size_t direct_bytes = 0;  // in direct mappings
  size_t direct_count = 0;
  size_t releasable = 0;  // bytes that malloc_trim(0) gives back, mappings kept for reuse included
  size_t reserved = 0;    // bytes of address space
  size_t free_slots = 0;  // how many
  size_t free_slots_of[kSizeClasses] = {};

  uint64_t stat(Stat which) const { return stats[static_cast<int>(which)]; }
};

}  // namespace llamalloc
