// SPDX-License-Identifier: Apache-2.0
// The heap in figures for the statistics calls of glibc (mallinfo2, malloc_info).
#pragma once

#include "heap/size_class.h"

namespace llamalloc {

struct HeapTotals {
  size_t backed = 0;        // bytes of huge pages that hold objects or are kept empty
  size_t peak_backed = 0;   // the most that `backed` was when somebody asked
  size_t allocated = 0;     // bytes in slots and runs in use; what threads cache is among them
  size_t direct_bytes = 0;  // in objects with a mapping of their own
  size_t direct_count = 0;
  size_t releasable = 0;  // bytes that malloc_trim(0) gives back, mappings kept for reuse included
  size_t reserved = 0;    // bytes of address space
  size_t free_slots = 0;  // how many
  size_t free_slots_of[kSizeClasses] = {};
};

HeapTotals count_heap();

}  // namespace llamalloc
