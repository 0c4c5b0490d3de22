// SPDX-License-Identifier: Apache-2.0
#include "pages/page_heap.h"

namespace llamalloc {

PageHeap::Place PageHeap::take_in(PageGroup group, PageKind kind, Blocks blocks,
                                  uint32_t alignment) {
  PageSet& set = set_of(group, kind);
  if (!set.has_pages()) return {};
  LockGuard guard(set.lock());
  const Place place = set.take(blocks, alignment);
  if (place.page == nullptr) return place;
  used_blocks_.fetch_add(blocks.n, std::memory_order_relaxed);
  place.page->last_taken.store(coarse_time(), std::memory_order_relaxed);
  return place;
}

PageHeap::Place PageHeap::take_in_use(PageGroup group, Blocks blocks, uint32_t alignment) {
  Place place = take_in(group, PageKind::native, blocks, alignment);
  for (int g = static_cast<int>(group); g < kPageGroups && place.page == nullptr; ++g)
    place = take_in(static_cast<PageGroup>(g), PageKind::promoted, blocks, alignment);
  const bool fills = group == PageGroup::permanent && fills_unknown_.load(std::memory_order_relaxed);
  if (place.page == nullptr && (fills || is_small_with_holes()))
    place = take_in_longer_lived(group, blocks, alignment);
  return place;
}

// The longest-lived first, and pages of `unknown` last; never the other way, since what stays would
// pin what is about to become free. What is itself unknown may lie anywhere.
PageHeap::Place PageHeap::take_in_longer_lived(PageGroup group, Blocks blocks, uint32_t alignment) {
  Place place;
  for (int g = kPageGroups - 1; g > static_cast<int>(group) && place.page == nullptr; --g)
    place = take_in(static_cast<PageGroup>(g), PageKind::native, blocks, alignment);
  if (place.page == nullptr)
    place = take_in(PageGroup::unknown, PageKind::native, blocks, alignment);
  return place;
}

bool PageHeap::is_small_with_holes() const {
  const size_t pages = in_use();
  const size_t all = pages * kBlocksPerHugePage;
  const size_t used = used_blocks_.load(std::memory_order_relaxed);
  return pages < small_heap_ && used < all && (all - used) * kManyHoles > all;
}

PageHeap::Place PageHeap::take_new(PageGroup group, Blocks blocks) {
  HugePage* page = pool_.acquire();
  if (page == nullptr) return {};
  page->group = group;
  page->opened = system_.now_coarse();
  page->last_taken.store(page->opened.n, std::memory_order_relaxed);
  PageSet& set = set_of(group, PageKind::native);
  used_blocks_.fetch_add(blocks.n, std::memory_order_relaxed);
  LockGuard guard(set.lock());
  return set.take_first(page, blocks);
}

void PageHeap::give(HugePage* page, const char* start, Blocks blocks) {
  used_blocks_.fetch_sub(blocks.n, std::memory_order_relaxed);
  with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    if (set.give_back(page, page->block_at(start), blocks))
      pool_.put_empty(page, system_.now_coarse());
  });
}

bool PageHeap::extend(HugePage* page, const char* start, Blocks have, Blocks want) {
  const bool extended = with_set_of(page, [&](PageSet& set) {
    set.lock().assert_held();
    return set.extend(page, page->block_at(start), have, want);
  });
  if (extended) used_blocks_.fetch_add(want.n - have.n, std::memory_order_relaxed);
  return extended;
}

void PageHeap::promote(HugePage* page, PageSet& from, Nanos now) {
  const auto longer = static_cast<PageGroup>(static_cast<int>(page->group.load()) + 1);
  page->group = longer;
  page->promoted = true;
  page->last_taken.store(now.n, std::memory_order_relaxed);
  PageSet& to = set_of(longer, PageKind::promoted);
  from.remove(page);
  LockGuard guard(to.lock());
  to.add(page);
}

size_t PageHeap::promote_expired(Nanos now) {
  size_t promoted = 0;
  for (int g = kPageGroups - 2; g >= 0; --g) {
    const PageGroup group = static_cast<PageGroup>(g);
    if (!has_deadline(group)) continue;
    for (PageSet& set : sets_[g]) {
      LockGuard guard(set.lock());
      while (HugePage* page = set.find([&](HugePage* p) {
        return now.n - p->last_taken.load(std::memory_order_relaxed) > row(group).deadline.n;
      })) {
        promote(page, set, now);
        ++promoted;
      }
    }
  }
  return promoted;
}

bool PageHeap::is_consistent() {
  bool good = pool_.is_consistent();
  for (auto& sets : sets_)
    for (PageSet& set : sets) {
      LockGuard guard(set.lock());
      good &= set.is_consistent();
    }
  return good;
}

}  // namespace llamalloc
