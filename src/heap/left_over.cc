// SPDX-License-Identifier: Apache-2.0
// What placement by lifetime left free in the spans of one group, for another.
#include <algorithm>

#include "heap/heap.h"
#include "os/waiter.h"

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
    left |= bins_[b].spans.load(std::memory_order_relaxed) != 0 && !is_unlisted(b, 0);
  }
  joins_.store(left, std::memory_order_relaxed);
  return left;
}

// So many at a time that nobody waits long for the locks. Meanwhile those that stay are in no list,
// so that each is looked at once.
void Heap::join_bin(int from, int to) {
  constexpr int kStep = 128;
  Bin &theirs = bins_[from], &own = bins_[to];
  Span* stay = nullptr;
  size_t left = theirs.spans.load(std::memory_order_relaxed);  // not what is opened meanwhile
  for (bool awaited = false; left != 0 && theirs.may_have_any();) {
    if (awaited) let_others_first();
    LockGuard first(own.lock);
    LockGuard second(theirs.lock);
    list_pending(theirs);
    for (int i = 0; i < kStep && left != 0 && !theirs.partial.empty(); ++i, --left) {
      Span* span = theirs.partial.min();
      if (may_join(*span)) {
        change_group(theirs, own, to, span);
      } else {
        theirs.unlist(span);
        span->links.next = stay;
        stay = span;
      }
    }
    awaited = own.lock.is_awaited() || theirs.lock.is_awaited();
  }
  while (stay != nullptr) {
    Span* const span = stay;
    stay = span->links.next;
    let_wait(theirs, span);
    if (span->free_now() == span->slots) free_if_empty(from, span);
  }
}

[[gnu::cold]] void Heap::let_others_first() {
  Waiter().wait(Nanos{50'000});
}

// A listed one.
void Heap::change_group(Bin& from, Bin& to, int bin, Span* span) {
  from.unlist(span);
  const auto used = static_cast<size_t>(span->slots - span->free_now());
  from.taken.fetch_sub(used, std::memory_order_relaxed);
  to.taken.fetch_add(used, std::memory_order_relaxed);
  from.spans.fetch_sub(1, std::memory_order_relaxed);
  to.spans.fetch_add(1, std::memory_order_relaxed);
  span->set_bin(bin);
  set_in_map(*span, {shape_of_bin(bin).blocks}, span);
  to.list(span);
  if (span->free_now() == span->slots) free_span(to, span);
}

// ----- While the load needs no more than before -----

// Near a memory limit, or where it has more holes beside what is live, and beside what was, than
// are in one part of it, and in a page of each group that is partly used. What is live takes a look
// at every bin: once for each page that comes or goes, and for so many calls.
bool Heap::has_outgrown_load() {
  constexpr uint32_t kCallsForALook = 64;
  constexpr size_t kPartlyUsed = (kPageGroups - 1) * kHugePageSize;
  if (pages_.is_nearly_full()) return true;
  const size_t held = held_bytes();
  const auto few = [&](size_t live) { return held <= live + live / kOutgrown + kPartlyUsed; };
  if (few(most_live_.load(std::memory_order_relaxed))) return false;
  const uint32_t looks = looks_.fetch_add(1, std::memory_order_relaxed);
  if (held != looked_held_.load(std::memory_order_relaxed) || looks % kCallsForALook == 0) {
    outgrown_.store(!few(live_bytes()), std::memory_order_relaxed);
    looked_held_.store(held, std::memory_order_relaxed);
  }
  return outgrown_.load(std::memory_order_relaxed);
}

// From longer-lived groups and `unknown` before the own one opens a span in its free blocks: these
// are for sizes that no other group has free. From shorter-lived ones after that, since what stays
// there pins what would go.
size_t Heap::take_from_groups(int bin, void** out, size_t n, int shard) {
  const int own = static_cast<int>(group_of_bin(bin));
  bool moved = false;
  const auto move_from = [&](int group) {
    if (moved) return;
    const int other = bin + (group - own) * kSizeClasses;
    moved = bins_[other].may_have_any() && take_group_over(other, bin);
  };
  for (int g = kPageGroups - 1; g > own; --g) move_from(g);
  if (own != 0) move_from(0);
  if (!moved) {
    const size_t taken = take_from(bin, out, n, Opens::sparingly, shard);
    if (taken != 0) return taken;
  }
  for (int g = own - 1; g > 0; --g) move_from(g);
  return moved ? take_from(bin, out, n, Opens::never, shard) : 0;
}

// Few at once, and half of them: the other group may want them back.
bool Heap::take_group_over(int from, int to) {
  constexpr uint32_t kTakenOver = 4;
  Bin &theirs = bins_[from], &own = bins_[to];
  LockGuard first(from < to ? theirs.lock : own.lock);
  LockGuard second(from < to ? own.lock : theirs.lock);
  theirs.lock.assert_held();
  own.lock.assert_held();
  list_pending(theirs);
  const uint32_t most = std::min(kTakenOver, (theirs.listed.load() + 1) / 2);
  uint32_t moved = 0;
  for (; moved < most && may_join(*theirs.partial.min()); ++moved)
    change_group(theirs, own, to, theirs.partial.min());
  return moved != 0;
}

}  // namespace llamalloc
