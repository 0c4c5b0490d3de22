// SPDX-License-Identifier: Apache-2.0
// The heap grows beyond its recent peak: what is free elsewhere goes back first.
#include <algorithm>

#include "heap/heap.h"

namespace llamalloc {

// Empty pages first: a mapping that is kept would have served, had it fitted. The thread that grows
// gives back so much at once; the worker does the rest.
constexpr size_t kMostForGrowth = size_t{128} << 20;
constexpr size_t kLeastHidden = 4 * kHugePageSize;
constexpr size_t kHiddenPart = 8;  // of what the pages hold
constexpr size_t kScatteredPart = 4;
constexpr uint32_t kMostRooms = 16;  // in a second: other threads make room, too, as it seems

// Returns how much is missing then.
[[gnu::cold]] size_t Heap::return_beyond_peak() {
  const size_t backed = backed_bytes(), peak = peak_.value();
  if (backed <= peak) return 0;
  const size_t need = std::min(backed - peak, kMostForGrowth);
  const size_t released = pages_.has_empty() ? pages_.release_now(need) : 0;
  if (released < need && drain_shelves()) pages_.release_now(need - released);
  const size_t left = std::min(less(backed_bytes(), peak), need);
  if (left != 0 && direct_.kept_bytes() != 0) direct_.release_now(left, direct_.spared());
  return std::min(less(backed_bytes(), peak), need);
}

[[gnu::cold]] void Heap::give_back_for_growth() {
  if (return_beyond_peak() != 0 && may_hide_pages())
    want_caches();
  else
    peak_.raise(backed_bytes());
}

bool Heap::may_make_room(size_t free, size_t part, size_t vain) const {
  return free >= kLeastHidden && free >= held_bytes() / part && free >= vain + vain / 2 &&
         rooms_made_.load(std::memory_order_relaxed) < kMostRooms &&
         !makes_room_.load(std::memory_order_relaxed);
}

// Whether so much is free that what is cached may keep many pages from being empty: a slot for each
// is enough.
[[gnu::cold]] bool Heap::may_hide_pages() const {
  const size_t vain = free_in_vain_.load(std::memory_order_relaxed);
  return may_make_room(free_in_pages(), kHiddenPart, vain);
}

// The slots of some objects among free blocks are enough for that, and what is placed between them
// stays there.
bool Heap::may_scatter_runs() const {
  const size_t vain = scattered_in_vain_.load(std::memory_order_relaxed);
  return may_make_room(free_blocks(), kScatteredPart, vain);
}

[[gnu::cold]] bool Heap::has_made_room(const Filling& before) const {
  const Filling now = filling();
  const size_t emptied = less(before.pages, now.pages) * kHugePageSize;
  return std::max(emptied, less(before.used, now.used)) >= kLeastHidden;
}

[[gnu::cold]] bool Heap::begin_room() {
  if (makes_room_.exchange(true, std::memory_order_relaxed)) return false;
  wants_caches_.store(false, std::memory_order_relaxed);
  rooms_made_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

[[gnu::cold]] void* Heap::make_room(const Filling& before) {
  void* twice = empty_depots();
  return_beyond_peak();
  if (!has_made_room(before)) {
    free_in_vain_.store(free_in_pages(), std::memory_order_relaxed);
    scattered_in_vain_.store(free_blocks(), std::memory_order_relaxed);
  }
  peak_.raise(backed_bytes());
  makes_room_.store(false, std::memory_order_relaxed);
  return twice;
}

}  // namespace llamalloc
