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
  // The same from the counters that are kept anyway, without a walk: for those who ask every
  // second. Microseconds, however large the heap is. Groups and totals count slots alone
  // (quick_count in heap/heap.h), stats are complete. Metadata is at most kMetadataAge old.
  Figures quick_figures(size_t thread_caches);
  // Contexts in the prediction cache, by class.
  void count_predicted(uint64_t (&predicted)[kLifetimeClasses]) const;
  // f(const HugePage&, const PageCounts&) for each page in use, under the lock of its set.
  template <typename F>
  void for_each_page(F&& f) {
    from_.heap.pages().for_each_page(
        [&](const HugePage& page) { f(page, from_.heap.count(page)); });
  }
  // Null: no memory.
  ProcessSnapshot* take(const ProcessFacts& facts);
  void give(ProcessSnapshot* snapshot);

 private:
  Figures copy(size_t thread_caches, ProcessSnapshot* rows);
  static constexpr Nanos kMetadataAge = Nanos::seconds(30);

  size_t recent_metadata();
  void fill_sums(Figures* figures);
  void add_totals(Figures* figures, const PoolCounts& pool);
  void fill_stats(Figures* figures, const PoolCounts& pool, size_t thread_caches);
  ProcessSnapshot* take_free();
  ProcessSnapshot* make();

  const Sources from_;
  std::atomic<size_t> peak_{0};
  std::atomic<size_t> metadata_{0};
  std::atomic<int64_t> metadata_seen_{0};       // when; 0: never
  std::atomic<ProcessSnapshot*> all_{nullptr};  // never shrinks; lock-free, so valid after a fork
};

}  // namespace llamalloc
