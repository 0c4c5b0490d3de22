// SPDX-License-Identifier: Apache-2.0
// Looking at the heap as a whole: for statistics, policies and tests.
#include "heap/heap.h"

#include <algorithm>

namespace llamalloc {

[[gnu::cold]] PageCounts Heap::count(const HugePage& page) const {
  PageCounts counts;
  if (page.broken) counts.unbacked = (kBlocksPerHugePage - page.dirty.count()) * kBlockSize;
  for_each_span(page, [&](const Span& span) {
    const bool run = span.kind != SpanKind::slots;
    const uint32_t objects = run ? 1 : span.slots - span.count_free();
    const int size_class = run ? kSizeClasses : size_class_of(span.slot_size);
    const size_t bytes = blocks_of(span).bytes();
    const size_t allocated = run ? bytes : objects * span.slot_size;
    counts.of[size_class].objects += objects;
    counts.of[size_class].slots += run ? 1 : span.slots;
    counts.allocated += allocated;
    counts.in_spans += bytes;
    counts.free_slots += bytes - allocated;
  });
  return counts;
}

// Blocks of no span are those of a run that a thread or a shelf keeps, or of one that is being
// made.
void GroupCounts::add(const HugePage& page, const PageCounts& counts) {
  ++pages;
  allocated += counts.allocated;
  free_slots += counts.free_slots;
  free_blocks += kHugePageSize - counts.in_spans;
  broken += page.broken;
  unbacked += counts.unbacked;
}

[[gnu::cold]] GroupCounts Heap::count(PageGroup group) {
  GroupCounts counts;
  pages_.for_each_page([&](const HugePage& page) {
    if (page.group.load(std::memory_order_relaxed) == group) counts.add(page, count(page));
  });
  return counts;
}

size_t Heap::held_bytes() const {
  return less(pages_.in_use() * kHugePageSize, pages_.unbacked_bytes() + shards_.spared());
}

[[gnu::cold]] size_t Heap::live_bytes() const {
  size_t of_spans = depot_bytes() + shelved_bytes(), taken = 0;
  for (int b = 0; b < kBins; ++b) {
    const SizeClassRow& shape = kSizeClassRows[b % kSizeClasses];
    of_spans +=
        bins_[b].spans.load(std::memory_order_relaxed) * shape_of_bin(b).blocks * kBlockSize;
    taken += taken_of(b) * shape.size;
  }
  return less(pages_.used_bytes() + taken, of_spans);
}

[[gnu::cold]] GroupCounts Heap::quick_count(PageGroup group) const {
  GroupCounts counts;
  counts.pages = pages_.in_use_by(group);
  for (int b = 0; b < kBins; ++b) {
    if (group_of_bin(b) != group) continue;
    const size_t spans = bins_[b].spans.load(std::memory_order_relaxed);
    const size_t in_spans = spans * shape_of_bin(b).blocks * kBlockSize;
    // What was given back while its span changed its group is counted in the wrong one.
    const auto slots = std::max<ptrdiff_t>(static_cast<ptrdiff_t>(taken_of(b)), 0);
    const size_t taken =
        std::min(static_cast<size_t>(slots), spans * shape_of_bin(b).slots) * slot_size_of(b);
    counts.allocated += taken;
    counts.free_slots += less(in_spans, taken);
  }
  return counts;
}

bool Heap::is_consistent() {
  bool good = direct_.is_consistent();
  const auto look_at = [&](Bin& bin, int shard) {
    LockGuard guard(bin.lock);
    while (bin.has_waiting()) list_pending(bin);
    good &= bin.partial.is_consistent();
    uint32_t listed = 0, spares = 0;
    bin.partial.for_each([&](Span* span) {
      ++listed;
      spares += span->is_spare();
      good &= span->is_consistent() && span->is_settled() && span->is_listed() &&
              span->free_now() > 0 && map_.find(span->base) == span && span->shard == shard &&
              (!span->is_spare() || span->free_now() == span->slots);
    });
    good &= bin.listed == listed && bin.spares == spares && (shard != 0 || spares == 0);
  };
  for (Bin& bin : bins_) look_at(bin, 0);
  shards_.for_each_open([&](int shard, int b) { look_at(shards_.at(shard, b), shard); });
  return good && pages_.is_consistent();
}

}  // namespace llamalloc
