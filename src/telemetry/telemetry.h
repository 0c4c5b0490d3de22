// SPDX-License-Identifier: Apache-2.0
// Copies the state of the process. One walk over the heap reads the counts of each huge page once,
// under the lock of its page set, which is held for that page only: an allocation waits for
// microseconds, however large the heap is. Callers then hold a copy of their own.
//
// What agrees: the counts of one page, which are of one moment; totals, groups and rows, which are
// sums of the same counts (is_consistent). What need not: different pages are seen at different
// moments, so an object that moves from one to the other meanwhile may be in both, or in none; and
// empty pages and direct mappings are counted after the walk. A page that is in use throughout is
// counted once, also if it is promoted; one that is taken into use or emptied meanwhile at most
// once.
//
//   figures()            totals, by value                    mallinfo, malloc_info, malloc_stats
//   take() ... give()    totals and a row for each page      JSON
//
// A new snapshot is allocated only if all existing ones are in use; they are reused, never freed.
#pragma once

#include <atomic>

#include "os/arena.h"
#include "predict/prediction_cache.h"
#include "telemetry/snapshot.h"

namespace llamalloc {

class Telemetry {
 public:
  struct Sources {
    Heap& heap;
    Profiler& profiler;
    const PredictionCache& predictions;
    const Counters& counters;
    MetadataArena& arena;
    PageSource& system;
  };
  constexpr explicit Telemetry(const Sources& sources) : from_(sources) {}

  Figures figures(size_t thread_caches) { return copy(thread_caches, nullptr); }
  // Null: no memory.
  ProcessSnapshot* take(const ProcessFacts& facts);
  void give(ProcessSnapshot* snapshot);

 private:
  Figures copy(size_t thread_caches, ProcessSnapshot* rows);
  void add_totals(Figures* figures, const PoolCounts& pool);
  void fill_stats(Figures* figures, const PoolCounts& pool, size_t thread_caches);
  size_t raise_peak(size_t now);
  ProcessSnapshot* take_free();
  ProcessSnapshot* make();

  const Sources from_;
  std::atomic<size_t> peak_{0};
  std::atomic<ProcessSnapshot*> all_{nullptr};  // never shrinks; lock-free, so valid after a fork
};

}  // namespace llamalloc
