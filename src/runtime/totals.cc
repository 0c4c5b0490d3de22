// SPDX-License-Identifier: Apache-2.0
#include "runtime/totals.h"

#include "runtime/process.h"

namespace llamalloc {
namespace {

constinit std::atomic<size_t> peak{0};

size_t raise_peak(size_t now) {
  size_t before = peak.load(std::memory_order_relaxed);
  while (before < now && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
  return before < now ? now : before;
}

void count_slots(const Span& span, HeapTotals* totals) {
  if (span.kind != SpanKind::slots) return;
  const size_t free = span.count_free();
  totals->free_slots += free;
  totals->free_slots_of[span.bin % kSizeClasses] += free;
}

}  // namespace

HeapTotals count_heap() {
  HeapTotals totals;
  size_t pages = 0, unbacked = 0;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts group = process.heap.count(static_cast<PageGroup>(g));
    totals.allocated += group.allocated;
    pages += group.pages;
    unbacked += group.unbacked;
  }
  process.heap.for_each_page([&](const HugePage& page) {
    process.heap.for_each_span(page, [&](const Span& span) { count_slots(span, &totals); });
  });
  const PoolCounts pool = process.heap.pool_counts();
  totals.backed = (pages + pool.empty_backed) * kHugePageSize - unbacked;
  totals.peak_backed = raise_peak(totals.backed);
  totals.direct_bytes = process.heap.direct_bytes();
  totals.direct_count = process.heap.direct_count();
  totals.releasable = pool.empty_backed * kHugePageSize + process.heap.cached_direct_bytes();
  totals.reserved = pool.reserved_bytes;
  return totals;
}

}  // namespace llamalloc
