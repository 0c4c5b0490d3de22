// SPDX-License-Identifier: Apache-2.0
// Broken pages that have filled up are made huge again.
//
//   done      it counts as whole
//   later     the same: the system may give it the rest of its memory at any time. So does a new
//             page for which the system has no huge one at hand
//   refused   it stays what it was, on small pages; after some of them we wait (back_off.h)
#include "pages/best_few.h"
#include "pages/page_heap.h"

namespace llamalloc {

namespace {

constexpr size_t kAtOnce = 16;                  // of a set
constexpr Nanos kLongest = Nanos::millis(250);  // of a round: the worker has more to do

}  // namespace

// Without the lock, a page may be emptied and its space given up.
struct PageHeap::Full {
  HugePage* page;
  char* base;
  bool operator<(const Full& other) const { return base < other.base; }
};

// A round that took long enough leaves the next sets to the next one: where a set has always more
// to do, the others have their turn.
void PageHeap::mend_full_pages(const BreakRules& rules, Breaking* done) {
  constexpr uint32_t kSets = uint32_t{kPageGroups} * kPageKinds;
  for (uint32_t i = 0; i < kSets && !done->mend_left && !mend_pause_.is_resting(); ++i) {
    PageSet& set = sets_[mend_next_ / kPageKinds][mend_next_ % kPageKinds];
    const size_t before = done->mended + done->unmended;
    if (set.has_pages()) mend_full(set, rules, done);
    if (done->mend_left && done->mended + done->unmended == before) return;  // it had no turn
    if (++mend_next_ == kSets) mend_next_ = 0;
  }
}

// Lowest addresses first, beginning behind the page that was refused last: those that always are
// keep no others of the set from their turn.
void PageHeap::mend_full(PageSet& set, const BreakRules& rules, Breaking* done) {
  BestFew<Full, kAtOnce> full;
  bool left_out = false;
  {
    LockGuard guard(set.lock());
    set.for_each_broken([&](HugePage* page) {
      if (page->used_blocks < rules.mend_from) return;
      if (page->used_blocks < page->mended_from && !rules.works) return;
      if (page->base <= refused_up_to_)
        left_out = true;
      else
        full.add({page, page->base});
    });
  }
  if (full.empty() && left_out) {
    refused_up_to_ = nullptr;
    return mend_full(set, rules, done);
  }
  for (const Full& one : full) {
    done->mend_left = done->mend_time >= kLongest;
    if (mend_pause_.is_resting() || done->mend_left) break;
    mend(set, one, done);
  }
}

// What the system refused stays small: it must not fill the page later, unseen. But one that was
// emptied meanwhile is asked to be huge, as all of those are.
void PageHeap::mend(PageSet& set, const Full& full, Breaking* done) {
  const Nanos started = system_.now();
  const Collapse made = pool_.make_huge(full.base);
  const bool refused = made == Collapse::refused;
  const Nanos took = system_.now() - started;
  done->mend_time = done->mend_time + took;
  if (made == Collapse::done) break_costs_.mended(took);
  ++(made == Collapse::done ? done->mended : done->unmended);
  mend_pause_.note(refused);
  if (refused) {
    refused_up_to_ = full.base;
    system_.advise_huge(full.base, kHugePageSize, false);
  }
  if (!count_as_whole(set, full, !refused) && refused)
    system_.advise_huge(full.base, kHugePageSize, true);
}

// False: the page has left the set.
bool PageHeap::count_as_whole(PageSet& set, const Full& full, bool whole) {
  HugePage* page = full.page;
  LockGuard guard(set.lock());
  if (page->set.load(std::memory_order_relaxed) != &set || page->base != full.base) return false;
  if (!whole || !page->broken) return page->broken;
  const int64_t filled = int64_t{kBlocksPerHugePage} - page->dirty.count();
  set.mark_broken(page, false);
  demand_.change_backed(filled, system_.now_coarse());
  return true;
}

}  // namespace llamalloc
