// SPDX-License-Identifier: Apache-2.0
// What placement by lifetime leaves in the heap where it is given up.
#include "heap/heap.h"

namespace llamalloc {

[[gnu::cold]] void Heap::join_pages() {
  constexpr uint32_t kManyCoarse = 4;  // one block in so many
  pages_.join_groups([&](const HugePage& page) {
    uint32_t coarse = 0;
    for_each_span(page, [&](const Span& span) {
      if (grain_of(span.object_size()) == Grain::coarse) coarse += blocks_of(span).n;
    });
    return coarse * kManyCoarse >= page.used_blocks;
  });
}

[[gnu::cold]] bool Heap::join_spans() {
  bool left = false;
  for (int b = 0; b < kBins; ++b) {
    if (group_of_bin(b) == PageGroup::unknown) continue;
    if (bins_[b].may_have_any()) join_bin(b, bin_of_unknown(b));
    left |= bins_[b].spans.load(std::memory_order_relaxed) != 0;
  }
  return left;
}

// So many at a time that nobody waits long for the locks.
void Heap::join_bin(int from, int to) {
  constexpr size_t kStep = 128;
  Bin &theirs = bins_[from], &own = bins_[to];
  for (size_t n = kStep; n == kStep;) {
    Span* spans[kStep];
    n = 0;
    LockGuard first(own.lock);
    LockGuard second(theirs.lock);
    list_pending(theirs);
    theirs.partial.for_each([&](Span* span) {
      if (n < kStep && may_join(*span)) spans[n++] = span;
    });
    for (size_t i = 0; i < n; ++i) {
      Span* span = spans[i];
      theirs.unlist(span);
      const auto used = static_cast<size_t>(span->slots - span->free_now());
      theirs.taken.fetch_sub(used, std::memory_order_relaxed);
      own.taken.fetch_add(used, std::memory_order_relaxed);
      theirs.spans.fetch_sub(1, std::memory_order_relaxed);
      own.spans.fetch_add(1, std::memory_order_relaxed);
      span->set_bin(to);
      set_in_map(*span, {shape_of_bin(to).blocks}, span);
      own.list(span);
      if (span->free_now() == span->slots) free_span(own, span);
    }
  }
}

}  // namespace llamalloc
