// SPDX-License-Identifier: Apache-2.0
#include "pages/page_heap.h"

#include <iterator>

namespace llamalloc {

inline void PageHeap::note_taken(const Place& place, Blocks blocks) {
  const Nanos now = system_.now_coarse();
  demand_.change(place.newly_backed, blocks.n, now);
  place.page->note_taken(now);
}

// Whether blocks may get memory that they have not: a hard limit bounds this, too.
class PageHeap::Backing {
 public:
  Backing(PageHeap& heap, uint32_t blocks) : heap_(heap) {
    if (__builtin_expect(heap.is_limited(), 0)) ask(blocks);
  }
  ~Backing() {
    if (__builtin_expect(promised_ != 0, 0)) heap_.note_promised(promised_);
  }
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  bool may() const { return may_; }

 private:
  [[gnu::cold]] void ask(uint32_t blocks) {
    const size_t bytes = Blocks{blocks}.bytes();
    may_ = heap_.promise(bytes);
    if (may_) promised_ = bytes;
  }

  PageHeap& heap_;
  size_t promised_ = 0;
  bool may_ = true;
};

[[gnu::noinline]] PageHeap::Place PageHeap::take_in(PageGroup group, PageKind kind, Blocks blocks,
                                                    uint32_t alignment, const PageFilter& among) {
  PageSet& set = set_of(group, kind);
  if (!set.has_pages()) return {};
  const Backing backing(*this, blocks.n);
  LockGuard guard(set.lock());
  const Place place = set.take(blocks, alignment, among, backing.may());
  if (place.page == nullptr) return place;
  note_taken(place, blocks);
  return place;
}

// Pages of the group itself. Buffers fill holes of fine pages before they take a new one, and any
// while those are many that placement left; fine objects never fill holes of coarse pages.
PageHeap::Place PageHeap::take_own(PageGroup group, Blocks blocks, uint32_t alignment,
                                   Grain grain) {
  if (!lies_apart(group, grain)) return take_in(group, PageKind::native, blocks, alignment);
  const Place place = take_in(group, PageKind::coarse, blocks, alignment);
  if (place.page != nullptr) return place;
  const bool holes_alone =
      has_many_fine(group) && !fills_left_over_.load(std::memory_order_relaxed);
  static constexpr PageFilter kHoles{.below = kHole};
  return take_in(group, PageKind::native, blocks, alignment, holes_alone ? kHoles : kAnyPage);
}

PageKind PageHeap::kind_of_new(PageGroup group, Blocks blocks, Grain grain) {
  const bool apart = has_many_fine(group) || blocks.n == kBlocksPerHugePage;
  return lies_apart(group, grain) && apart ? PageKind::coarse : PageKind::native;
}

PageHeap::Place PageHeap::take_in_use(PageGroup group, Blocks blocks, uint32_t alignment,
                                      Grain grain) {
  Place place = take_own(group, blocks, alignment, grain);
  for (int g = static_cast<int>(group); g < kPageGroups && place.page == nullptr; ++g)
    place = take_in(static_cast<PageGroup>(g), PageKind::promoted, blocks, alignment);
  if (place.page != nullptr) return place;
  const bool outgrown = has_outgrown_use();
  const bool has_holes = is_small_with_holes();
  const bool parts = group != PageGroup::unknown && group != PageGroup::permanent;
  const bool fills_older = (outgrown && group != PageGroup::permanent) || (has_holes && parts);
  const bool fills_any =
      (group == PageGroup::unknown && fills_left_over_.load(std::memory_order_relaxed)) ||
      (group == PageGroup::permanent && fills_unknown_.load(std::memory_order_relaxed)) ||
      (has_holes && !parts) || (fills_older && is_nearly_full());
  if (fills_any)
    place = take_in_longer_lived(group, blocks, alignment, kAnyPage);
  else if (fills_older)
    place = take_in_longer_lived(group, blocks, alignment,
                                 {.opened_until = system_.now_coarse() - kBeingFilled}, has_holes);
  const bool takes_over = outgrown && takes_over_.load(std::memory_order_relaxed);
  if (place.page == nullptr && takes_over && take_over(group, blocks, alignment))
    place = take_in(group, PageKind::promoted, blocks, alignment);
  return place;
}

// The page of a shorter-lived group that has most room, if that is half of it: what else is in it
// dies soon, and then it is a page of this group alone.
[[gnu::cold]] bool PageHeap::take_over(PageGroup group, Blocks blocks, uint32_t alignment) {
  for (int g = static_cast<int>(group) - 1; g > 0; --g) {
    PageSet& from = set_of(static_cast<PageGroup>(g), PageKind::native);
    if (!from.has_pages()) continue;
    LockGuard guard(from.lock());
    HugePage* page = from.roomiest();
    if (page == nullptr || page->used_blocks > kBlocksPerHugePage / 2) continue;
    if (page->used.find_clear(blocks.n, alignment) == kBlocksPerHugePage) continue;
    move_to_longer_lived(page, from, group);
    return true;
  }
  return false;
}

// The longest-lived first, and pages of `unknown` last; never the other way, since what stays would
// pin what is about to become free. What is itself unknown may lie anywhere.
PageHeap::Place PageHeap::take_in_longer_lived(PageGroup group, Blocks blocks, uint32_t alignment,
                                               const PageFilter& among, bool any_unknown) {
  Place place;
  for (int g = kPageGroups - 1; g > static_cast<int>(group) && place.page == nullptr; --g)
    place = take_in(static_cast<PageGroup>(g), PageKind::native, blocks, alignment, among);
  if (place.page == nullptr)
    place = take_in(PageGroup::unknown, PageKind::native, blocks, alignment,
                    any_unknown ? kAnyPage : among);
  return place;
}

[[gnu::cold]] PageHeap::Place PageHeap::search_in(PageSet& set, Blocks blocks, uint32_t alignment) {
  if (!set.has_pages()) return {};
  const Backing backing(*this, blocks.n);
  LockGuard guard(set.lock());
  const Place place = set.search(blocks, alignment, backing.may());
  if (place.page != nullptr) note_taken(place, blocks);
  return place;
}

// A walk over all pages only where no set finds room at once.
[[gnu::cold]] PageHeap::Place PageHeap::take_anywhere(Blocks blocks, uint32_t alignment) {
  Place place;
  for (int g = 0; g < kPageGroups && place.page == nullptr; ++g)
    for (int kind = 0; kind < kPageKinds && place.page == nullptr; ++kind)
      place = take_in(static_cast<PageGroup>(g), static_cast<PageKind>(kind), blocks, alignment);
  for (int g = 0; g < kPageGroups && place.page == nullptr; ++g)
    for (int kind = 0; kind < kPageKinds && place.page == nullptr; ++kind)
      place = search_in(sets_[g][kind], blocks, alignment);
  return place;
}

bool PageHeap::is_small_with_holes() const {
  const size_t pages = in_use();
  const size_t all = pages * kBlocksPerHugePage;
  const size_t used = demand_.level().used / kBlockSize;
  return pages < small_heap_ && used < all && (all - used) * kManyHoles > all;
}

bool PageHeap::promise(size_t bytes) {
  size_t promised = promised_.load(std::memory_order_relaxed);
  do {
    const size_t limit = limit_.load(std::memory_order_relaxed);
    const size_t have = taken() + promised;
    if (limit != 0 && (have >= limit || bytes > limit - have)) return false;
  } while (!promised_.compare_exchange_weak(promised, promised + bytes, std::memory_order_relaxed));
  return true;
}

// A child that was forked in a signal handler meanwhile has forgotten it.
void PageHeap::note_promised(size_t bytes) {
  size_t promised = promised_.load(std::memory_order_relaxed);
  while (!promised_.compare_exchange_weak(promised, less(promised, bytes),
                                          std::memory_order_relaxed)) {
  }
}

void PageHeap::note_before_full(size_t bytes) {
  const size_t have = taken();
  nearly_full_.store(bytes < SIZE_MAX - have ? have + bytes : SIZE_MAX, std::memory_order_relaxed);
}

bool PageHeap::has_outgrown_use() const {
  if (is_nearly_full()) return small_heap_ != 0;
  const size_t lately = most_used_.load(std::memory_order_relaxed);
  const size_t used = demand_.level().used;
  const size_t most = used > lately ? used : lately;
  return small_heap_ != 0 && lately != 0 &&
         in_use() * kHugePageSize > most + most / kOutgrown + unbacked_bytes();
}

PageHeap::Place PageHeap::take_new(PageGroup group, Blocks blocks, Grain grain) {
  HugePage* page = pool_.acquire(false);
  if (page == nullptr && promise(kHugePageSize)) {
    page = pool_.acquire();
    note_promised(kHugePageSize);
  }
  if (page == nullptr) return {};
  page->group = group;
  page->opened = system_.now_coarse();
  page->note_taken(page->opened);
  PageSet& set = set_of(group, kind_of_new(group, blocks, grain));
  LockGuard guard(set.lock());
  const Place place = set.take_first(page, blocks);
  demand_.change(place.newly_backed, blocks.n, page->opened);
  return place;
}

void PageHeap::give(HugePage* page, const char* start, Blocks blocks) {
  const Nanos now = system_.now_coarse();
  demand_.change(0, -int64_t{blocks.n}, now);
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    if (set.give_back(page, page->block_at(start), blocks)) pool_.put_empty(page, now);
  });
}

bool PageHeap::extend(HugePage* page, const char* start, Blocks have, Blocks want) {
  uint32_t newly_backed = 0;
  const Nanos now = system_.now_coarse();
  const Backing backing(*this, want.n - have.n);
  const bool may_back = backing.may();
  const bool extended = with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    if (!set.extend(page, page->block_at(start), have, want, &newly_backed, may_back)) return false;
    page->blocks_taken.store(now.n, std::memory_order_relaxed);
    return true;
  });
  if (extended) demand_.change(newly_backed, want.n - have.n, now);
  return extended;
}

[[gnu::cold]] void PageHeap::promote(HugePage* page, PageSet& from, Nanos now) {
  page->note_taken(now);
  move_to_longer_lived(page, from,
                       static_cast<PageGroup>(static_cast<int>(page->group.load()) + 1));
}

[[gnu::cold]] void PageHeap::move_to_longer_lived(HugePage* page, PageSet& from, PageGroup group) {
  page->group = group;
  page->promoted = true;
  PageSet& to = set_of(group, PageKind::promoted);
  from.remove(page);
  LockGuard guard(to.lock());
  to.add(page);
}

[[gnu::cold]] bool PageHeap::is_expired(const HugePage* page, Nanos now) {
  const PageGroup group = page->group.load(std::memory_order_relaxed);
  const int64_t taken = page->last_taken.load(std::memory_order_relaxed);
  return has_deadline(group) && now.n - taken > row(group).deadline.n;
}

[[gnu::cold]] void PageHeap::join(HugePage* page, PageSet& from, PageKind kind) {
  PageSet& to = set_of(PageGroup::unknown, kind);
  LockGuard guard(to.lock());
  LockGuard other(from.lock());
  if (page->set.load(std::memory_order_relaxed) != &from) return;
  page->group = PageGroup::unknown;
  page->promoted = false;
  from.remove(page);
  to.add(page);
}

// A lock is held for one page at a time, however many there are and have expired.
[[gnu::cold]] size_t PageHeap::promote_expired(Nanos now) {
  size_t waiting = 0, promoted = 0;
  for (int g = 0; g < kPageGroups; ++g)
    if (has_deadline(static_cast<PageGroup>(g))) waiting += in_use_by(static_cast<PageGroup>(g));
  if (waiting == 0) return 0;
  pool_.for_each_record([&](HugePage* page) {
    PageSet* set = page->set.load(std::memory_order_acquire);
    if (set == nullptr || !is_expired(page, now)) return;
    LockGuard guard(set->lock());
    if (page->set.load(std::memory_order_relaxed) != set || !is_expired(page, now)) return;
    promote(page, *set, now);
    ++promoted;
  });
  return promoted;
}

// The series against the pages.
bool PageHeap::has_true_level() {
  size_t backed = 0, used = 0;
  pool_.for_each_record([&](const HugePage* page) {
    backed += page->backed_blocks();
    used += page->used_blocks;
  });
  const DemandSeries::Level level = demand_.level();
  return level.backed == backed * kBlockSize && level.used == used * kBlockSize;
}

bool PageHeap::is_consistent() {
  bool good = pool_.is_consistent();
  for (auto& sets : sets_)
    for (PageSet& set : sets) {
      LockGuard guard(set.lock());
      good &= set.is_consistent();
    }
  return good && has_true_level();
}

}  // namespace llamalloc
