// SPDX-License-Identifier: Apache-2.0
#include "telemetry/telemetry.h"

#include "base/atomic_extreme.h"

namespace llamalloc {

Figures Telemetry::copy(size_t thread_caches, ProcessSnapshot* rows) {
  Figures figures;
  from_.heap.pages().for_each_page([&](const HugePage& page) {
    const PageCounts counts = from_.heap.count(page);
    figures.groups[static_cast<int>(page.group.load(std::memory_order_relaxed))].add(page, counts);
    for (int c = 0; c < kSizeClasses; ++c)
      figures.free_slots_of[c] += counts.of[c].slots - counts.of[c].objects;
    if (rows != nullptr) rows->add(page, counts);
  });
  const PoolCounts pool = from_.heap.pages().counts();
  add_totals(&figures, pool);
  fill_stats(&figures, pool, thread_caches);
  figures.stats[static_cast<int>(Stat::metadata)] =
      from_.arena.resident_bytes() + from_.heap.map_bytes();
  fill_sums(&figures);
  return figures;
}

// Blocks in spans and runs count as active, those on shelves included.
Figures Telemetry::quick_figures(size_t thread_caches) {
  const Heap& heap = from_.heap;
  Figures figures;
  for (int g = 0; g < kPageGroups; ++g)
    figures.groups[g] = heap.quick_count(static_cast<PageGroup>(g));
  const PoolCounts pool = from_.heap.pages().counts();
  figures.groups[0].unbacked = heap.pages().unbacked_bytes();  // nobody knows whose
  add_totals(&figures, pool);
  figures.allocated = heap.live_bytes() + heap.depot_bytes() + heap.shelved_bytes();
  fill_stats(&figures, pool, thread_caches);
  const auto set = [&](Stat stat, size_t n) { figures.stats[static_cast<int>(stat)] = n; };
  set(Stat::active, heap.pages().used_bytes() + figures.direct_bytes);
  set(Stat::huge_pages_used, heap.pages().in_use());
  set(Stat::huge_pages_broken, heap.pages().broken());
  set(Stat::metadata, recent_metadata());
  fill_sums(&figures);
  return figures;
}

// The system is asked for every page of them: milliseconds in a large process.
size_t Telemetry::recent_metadata() {
  const Nanos now = from_.system.now();
  const Nanos seen{metadata_seen_.load(std::memory_order_relaxed)};
  if (seen.n != 0 && now - seen < kMetadataAge) return metadata_.load(std::memory_order_relaxed);
  const size_t bytes = from_.arena.resident_bytes() + from_.heap.map_bytes();
  metadata_.store(bytes, std::memory_order_relaxed);
  metadata_seen_.store(now.n, std::memory_order_relaxed);
  return bytes;
}

void Telemetry::count_predicted(uint64_t (&predicted)[kLifetimeClasses]) const {
  for (uint64_t& contexts : predicted) contexts = 0;
  from_.predictions.for_each([&](LifetimeClass c) { ++predicted[static_cast<int>(c)]; });
}

// What is made of other stats.
void Telemetry::fill_sums(Figures* figures) {
  const auto set = [figures](Stat stat, size_t n) { figures->stats[static_cast<int>(stat)] = n; };
  const size_t kept = figures->stat(Stat::backed) - figures->pages_backed;
  const size_t metadata = figures->stat(Stat::metadata);
  const size_t pages =
      (figures->stat(Stat::huge_pages_used) + figures->stat(Stat::huge_pages_empty)) *
      kHugePageSize;
  set(Stat::resident, figures->stat(Stat::backed) + metadata);
  set(Stat::mapped, pages + kept + metadata);
  set(Stat::retained, figures->reserved > pages ? figures->reserved - pages : 0);
}

void Telemetry::add_totals(Figures* figures, const PoolCounts& pool) {
  size_t pages = 0, unbacked = 0;
  for (const GroupCounts& group : figures->groups) {
    figures->allocated += group.allocated;
    pages += group.pages;
    unbacked += group.unbacked;
  }
  for (const size_t free : figures->free_slots_of) figures->free_slots += free;
  const size_t empty = pool.empty_blocks * kBlockSize;
  figures->pages_backed = pages * kHugePageSize - unbacked + empty;
  figures->peak_backed = raise(peak_, figures->pages_backed);
  figures->direct_bytes = from_.heap.direct().bytes();
  figures->direct_count = from_.heap.direct().count();
  figures->releasable = empty + from_.heap.direct().kept_bytes();
  figures->reserved = pool.reserved_bytes;
}

void Telemetry::fill_stats(Figures* figures, const PoolCounts& pool, size_t thread_caches) {
  for (int i = 0; i < kStats; ++i) figures->stats[i] = from_.counters.get(static_cast<Stat>(i));
  const auto set = [figures](Stat stat, size_t n) { figures->stats[static_cast<int>(stat)] = n; };
  size_t active = 0, pages = 0, broken = 0;
  for (const GroupCounts& group : figures->groups) {
    active += group.allocated + group.free_slots;
    pages += group.pages;
    broken += group.broken;
  }
  const size_t direct = figures->direct_bytes;
  const size_t kept = figures->releasable - pool.empty_blocks * kBlockSize;
  set(Stat::allocated, figures->allocated + direct);
  set(Stat::active, active + direct);
  set(Stat::backed, figures->pages_backed + direct + kept);
  set(Stat::reserved, pool.reserved_bytes);
  set(Stat::huge_pages_used, pages);
  set(Stat::huge_pages_broken, broken);
  set(Stat::huge_pages_empty, pool.empty_backed);
  set(Stat::huge_pages_acquired, pool.acquired);
  set(Stat::huge_pages_released, pool.released);
  set(Stat::huge_pages_refetched, pool.refetched);
  const Nanos now = from_.system.now();
  const auto demand = from_.heap.pages().demand().range(now, DemandSeries::kFragmentationWindow);
  set(Stat::realized_fragmentation, demand.least_free);
  set(Stat::average_fragmentation, demand.average_free);
  set(Stat::mapped_directly, direct);
  set(Stat::thread_caches, thread_caches);
  set(Stat::samples, from_.profiler.samples());
  set(Stat::samples_dropped, from_.profiler.dropped());
}

// Names of tags beyond those known when this began have no sample yet.
ProcessSnapshot* Telemetry::take(const ProcessFacts& facts) {
  ProcessSnapshot* snapshot = take_free();
  if (snapshot == nullptr) snapshot = make();
  if (snapshot == nullptr) return nullptr;
  snapshot->start(facts, from_.system.now());
  snapshot->tag_names = &from_.profiler.tags();
  snapshot->tag_count = snapshot->tag_names->size();
  from_.profiler.sum_by_tag(snapshot->tags, snapshot->tag_count);
  count_predicted(snapshot->predicted);
  snapshot->figures = copy(facts.thread_caches, snapshot);
  SLOW_DCHECK(snapshot->is_consistent());
  return snapshot;
}

void Telemetry::give(ProcessSnapshot* snapshot) {
  if (snapshot->page_count != 0) {
    from_.system.discard(snapshot->pages, sizeof(snapshot->pages));
    from_.system.discard(snapshot->slots, sizeof(snapshot->slots));
  }
  snapshot->taken.store(false, std::memory_order_release);
}

// The acquire pairs with the release in give(): the rows are empty again.
ProcessSnapshot* Telemetry::take_free() {
  for (ProcessSnapshot* s = all_.load(std::memory_order_acquire); s != nullptr; s = s->next)
    if (!s->taken.load(std::memory_order_relaxed) &&
        !s->taken.exchange(true, std::memory_order_acquire))
      return s;
  return nullptr;
}

ProcessSnapshot* Telemetry::make() {
  auto* snapshot = from_.arena.make<ProcessSnapshot>();
  if (snapshot == nullptr) return nullptr;
  snapshot->taken.store(true, std::memory_order_relaxed);
  snapshot->next = all_.load(std::memory_order_relaxed);
  while (!all_.compare_exchange_weak(snapshot->next, snapshot, std::memory_order_release)) {
  }
  return snapshot;
}

}  // namespace llamalloc
