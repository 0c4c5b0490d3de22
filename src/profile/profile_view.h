// SPDX-License-Identifier: Apache-2.0
// What a profile shows: which values each sample has, and of what time.
//
//   lifetimes   how long objects live: the file of contracts/profile_format.md
//   heap        what is alive, and all that was allocated: the sample types of Go's heap profile
//   allocs      what was allocated
//   pinned      memory that objects keep from the system: each gets the part of its huge page's
//               memory that it has of the page's live bytes, so that all parts together are the
//               heap
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/sort.h"
#include "base/units.h"
#include "profile/scratch_pages.h"
#include "profile/snapshot.h"

namespace llamalloc {

enum class ProfileKind : uint8_t { lifetimes, heap, allocs, pinned };

// A state to compare with: what was known when the window was opened.
struct ProfileWindow {
  explicit ProfileWindow(PageSource& system) : pages(system), scratch(pages) {}

  ScratchPages pages;
  MetadataArena scratch;
  Snapshot before;
  Nanos opened{};
};

// How much memory the huge pages keep for each live byte in them.
struct PinnedPages {
  struct Row {
    uintptr_t base;
    double memory_by_live;  // >= 1
  };
  Row* rows = nullptr;
  size_t count = 0;

  void sort() {
    sort_rows(rows, count, [](const Row& a, const Row& b) { return a.base < b.base; });
  }
  // Objects with a mapping of their own keep just that.
  double memory_of(uintptr_t address, double live) const {
    const uintptr_t base = align_down(address, kHugePageSize);
    const Row* row = std::lower_bound(rows, rows + count, base,
                                      [](const Row& r, uintptr_t b) { return r.base < b; });
    return row != rows + count && row->base == base ? live * row->memory_by_live : live;
  }
};

}  // namespace llamalloc
