// SPDX-License-Identifier: Apache-2.0
// Freed runs that are kept for the next request of exactly the same length. Reusing one takes one
// atomic exchange; a page set takes locks and searches bitmaps.
//
//   place[group][blocks % 4]   run | blocks / 4, in the low bits, which are zero in an address
//
// A parked run keeps its blocks; its address is in no map. There are at most four for each page
// group, and only until the worker's next step.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"
#include "heap/span.h"

namespace llamalloc {

class ParkedRuns {
 public:
  // A run of exactly that many blocks, or null.
  Span* take(PageGroup group, Blocks blocks) {
    std::atomic<uintptr_t>& place = place_of(group, blocks);
    uintptr_t there = place.load(std::memory_order_relaxed);
    if (there == 0 || (there & kTagMask) != tag_of(blocks)) return nullptr;
    // Pairs with the release in park(): what the last owner wrote to the record.
    const bool mine = place.compare_exchange_strong(there, 0, std::memory_order_acquire,
                                                    std::memory_order_relaxed);
    return mine ? run_of(there) : nullptr;
  }
  // Parks a run. Returns the run that it replaces, or null.
  Span* park(Span* run, PageGroup group, Blocks blocks) {
    const uintptr_t word = reinterpret_cast<uintptr_t>(run) | tag_of(blocks);
    Span* leaves = run_of(place_of(group, blocks).exchange(word, std::memory_order_seq_cst));
    // After the exchange: a drain that missed the run has set this to false before it looked.
    if (!any_.load(std::memory_order_seq_cst)) any_.store(true, std::memory_order_relaxed);
    return leaves;
  }
  // A hint: false only when there was none, or one is being parked.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Calls f(Span*) for every parked run, which f then owns.
  template <typename F>
  void drain(F&& f) {
    any_.store(false, std::memory_order_seq_cst);
    for (Row& row : rows_)
      for (auto& place : row.places)
        if (Span* run = run_of(place.exchange(0, std::memory_order_seq_cst))) f(run);
  }

 private:
  static constexpr uint32_t kPlaces = 4;  // a group
  static constexpr uintptr_t kTagMask = alignof(Span) - 1;
  static_assert((kBlocksPerHugePage - 1) / kPlaces <= kTagMask);
  struct alignas(kCacheLine) Row {
    std::atomic<uintptr_t> places[kPlaces]{};
  };

  static uintptr_t tag_of(Blocks blocks) { return blocks.n / kPlaces; }
  static Span* run_of(uintptr_t word) { return reinterpret_cast<Span*>(word & ~kTagMask); }
  std::atomic<uintptr_t>& place_of(PageGroup group, Blocks blocks) {
    return rows_[static_cast<int>(group)].places[blocks.n % kPlaces];
  }

  Row rows_[kPageGroups];
  std::atomic<bool> any_{false};
};

}  // namespace llamalloc
