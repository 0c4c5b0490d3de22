// SPDX-License-Identifier: Apache-2.0
#include "pages/page_pool.h"

#include <algorithm>

namespace llamalloc {
namespace {

// Once in the library, not in each caller.
[[gnu::noinline]] void take_out(AddressHeap<HugePage>& pages, HugePage* page) {
  pages.remove(page);
}

}  // namespace

void PagePool::add_backed(HugePage* page) {
  backed_.insert(page);
  by_age_.add_newest(page);
  counts_.empty_blocks += page->backed_blocks();
  empty_hint_.store(++counts_.empty_backed, std::memory_order_relaxed);
}

void PagePool::remove_backed(HugePage* page) {
  take_out(backed_, page);
  by_age_.remove(page);
  counts_.empty_blocks -= page->backed_blocks();
  empty_hint_.store(--counts_.empty_backed, std::memory_order_relaxed);
}

void PagePool::add_given_back(HugePage* page) {
  given_back_.insert(page);
  page->given_back = true;
}

void PagePool::remove_given_back(HugePage* page) {
  take_out(given_back_, page);
  page->given_back = false;
  if (page->has_tables) remove_described(page);
}

void PagePool::add_described(HugePage* page) {
  described_.add_newest(page);
  page->has_tables = true;
  tables_hint_.store(tables_hint_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void PagePool::remove_described(HugePage* page) {
  described_.remove(page);
  page->has_tables = false;
  tables_hint_.store(tables_hint_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

HugePage* PagePool::acquire(bool may_back) {
  LockGuard guard(lock_);
  HugePage* page = backed_.min();
  if (page != nullptr && !commit(page)) return nullptr;
  if (page)
    remove_backed(page), note_reuse(page);
  else if (may_back)
    page = back_another();
  if (page != nullptr) in_use_.store(in_use() + 1, std::memory_order_relaxed);
  return page;
}

HugePage* PagePool::back_another() {
  HugePage* page = given_back_.min();
  if (page != nullptr && !commit(page)) return nullptr;
  if (page)
    remove_given_back(page), note_reuse(page), ++counts_.refetched;
  else
    page = take_new();
  if (page != nullptr) become_backed(page);
  return page;
}

void PagePool::become_backed(HugePage* page) {
  page->backed = true;
  page->broken = !gets_huge_pages();
  note_backed(page->backed_blocks());
  acquired_hint_.store(++counts_.acquired, std::memory_order_relaxed);
  grown_.store(true, std::memory_order_relaxed);
}

void PagePool::put_empty(HugePage* page, Nanos now) {
  LockGuard guard(lock_);
  DCHECK(page->used_blocks == 0);
  page->set = nullptr;
  page->promoted = false;
  page->emptied = now;
  add_backed(page);
  refused_.store(false, std::memory_order_relaxed);
  in_use_.store(in_use() - 1, std::memory_order_relaxed);
}

void PagePool::note_committed(HugePage* page, bool committed) {
  if (page->committed == committed) return;
  page->committed = committed;
  if (committed)
    counts_.committed_bytes += kHugePageSize;
  else
    counts_.committed_bytes -= kHugePageSize;
}

// The first pages stay on small pages while they are all.
bool PagePool::commit(HugePage* page) {
  if (page->committed) return true;
  if (!system_.commit(page->base, kHugePageSize)) return false;
  system_.advise_huge(page->base, kHugePageSize, want_huge_ && pages_made_ > kManyPages);
  note_committed(page, true);
  return true;
}

// Until the system has answered, and in a child that is forked meanwhile, it may be either.
HugePage* PagePool::take_oldest(Nanos before, size_t retain) {
  LockGuard guard(lock_);
  HugePage* page = by_age_.oldest();
  if (counts_.empty_backed <= retain || page->emptied > before) return nullptr;
  remove_backed(page);
  leaving_.add_newest(page);
  if (uncommits_.load(std::memory_order_relaxed)) note_committed(page, false);
  return page;
}

// Of a page that is leaving. Where the system has no room for one mapping more, it stays committed.
bool PagePool::discard(HugePage* page) {
  if (!page->committed) {
    if (system_.uncommit(page->base, kHugePageSize)) return true;
    LockGuard guard(lock_);
    note_committed(page, true);
  }
  if (!system_.discard(page->base, kHugePageSize)) return false;
  if (page->broken && want_huge_) system_.advise_huge(page->base, kHugePageSize, true);
  return true;
}

size_t PagePool::release(Nanos before, size_t retain, size_t most) {
  size_t released = 0, refused = 0;
  while (HugePage* page = released < most ? take_oldest(before, retain) : nullptr) {
    if (!discard(page)) {  // locked in memory, perhaps: after the others it is tried again
      LockGuard guard(lock_);
      page->emptied = system_.now_coarse();
      stop_leaving(page);
      if (++refused == kMostRefused) break;
      continue;
    }
    become_given_back(page);
    ++released;
  }
  if (released + refused != 0) refused_.store(released == 0, std::memory_order_relaxed);
  return released;
}

void PagePool::note_retained(size_t retain) {
  LockGuard guard(lock_);
  if (counts_.empty_backed <= retain) refused_.store(true, std::memory_order_relaxed);
}

void PagePool::become_given_back(HugePage* page) {
  LockGuard guard(lock_);
  counts_.released_blocks += page->backed_blocks();
  note_backed(-int64_t{page->backed_blocks()});
  page->backed = page->broken = false;
  page->dirty = {};
  page->left = system_.now_coarse();
  stop_leaving(page);
  add_described(page);
  ++counts_.released;
}

bool PagePool::fetch_one(Nanos before, Nanos* price) {
  HugePage* page;
  {
    LockGuard guard(lock_);
    page = given_back_.min();
    if (page == nullptr || page->left > before || !commit(page)) return false;
    remove_given_back(page);
    leaving_.add_newest(page);
  }
  *price = system_.fetch(page->base);
  LockGuard guard(lock_);
  become_backed(page);
  ++counts_.refetched;
  page->emptied = system_.now_coarse();
  stop_leaving(page);
  refused_.store(false, std::memory_order_relaxed);
  return true;
}

void PagePool::release_tables(Nanos before) {
  HugePage* neighbour;
  while (HugePage* page = take_described(before, &neighbour)) {
    system_.discard(page->records, kPageRecordBytes);  // it has no spans
    if (neighbour != nullptr) tables_.discard(page->base);
    LockGuard guard(lock_);
    stop_leaving(page);
    if (neighbour != nullptr) stop_leaving(neighbour);
  }
}

void PagePool::stop_leaving(HugePage* page) {
  leaving_.remove(page);
  page->backed ? add_backed(page) : add_given_back(page);
}

// Whether the system call came before the fork or not: it only takes memory that nobody uses.
void PagePool::keep_what_was_leaving() {
  LockGuard guard(lock_);
  while (HugePage* page = leaving_.oldest()) stop_leaving(page);
}

// Nobody gets the page meanwhile. Nor the neighbour, so that nobody fills in their page of the
// tables; null: it is in use, or its own turn will come.
HugePage* PagePool::take_described(Nanos before, HugePage** neighbour) {
  LockGuard guard(lock_);
  HugePage* page = described_.oldest();
  if (page == nullptr || page->left > before) return nullptr;
  remove_given_back(page);
  HugePage* other = page->neighbour;
  if (other != nullptr && (!other->given_back || other->has_tables)) other = nullptr;
  leaving_.add_newest(page);
  if (other != nullptr) remove_given_back(other), leaving_.add_newest(other);
  *neighbour = other;
  return page;
}

HugePage* PagePool::take_new() {
  if (cursor_ == committed_ && !commit_more()) return nullptr;
  HugePage* page = new_record();
  if (page == nullptr) return nullptr;
  page->base = cursor_;
  meet_neighbour(page);
  cursor_ += kHugePageSize;
  ++pages_made_;
  if (pages_made_ <= kFirstPages) {
    first_pages_[pages_made_ - 1] = page;
    system_.advise_huge(page->base, kHugePageSize, false);
  }
  if (pages_made_ == kManyPages + 1 && want_huge_)
    collapse_due_.store(true, std::memory_order_relaxed);
  return page;
}

// Pages are made upwards: of two that share a page of the tables, the lower one comes first.
void PagePool::meet_neighbour(HugePage* page) {
  HugePage* below = last_made_;
  last_made_ = page;
  if (below == nullptr || below->base + kHugePageSize != page->base) return;
  if (!tables_.share_memory(below->base, page->base)) return;
  page->neighbour = below;
  below->neighbour = page;
}

HugePage* PagePool::new_record() {
  if (spare_ == nullptr && !make_records()) return nullptr;
  HugePage* page = spare_;
  spare_ = page->older;
  return page;
}

// Many at once, so that they lie densely: what stands beside them is aligned to small pages.
bool PagePool::make_records() {
  char* of_spans =
      static_cast<char*>(arena_.allocate(kRecordsAtOnce * kPageRecordBytes, kSmallPage));
  Records* records = of_spans ? arena_.make<Records>() : nullptr;
  if (records == nullptr) return false;
  for (size_t i = kRecordsAtOnce; i-- > 0;) {
    HugePage* page = &records->pages[i];
    page->records = of_spans + i * kPageRecordBytes;
    page->older = spare_;
    spare_ = page;
  }
  records->before = records_.load(std::memory_order_relaxed);
  records_.store(records, std::memory_order_release);
  return true;
}

// All empty pages as a list by `older`; nobody finds them any more.
HugePage* PagePool::detach_empty() {
  HugePage* list = nullptr;
  const auto move = [&](HugePage* page) {
    if (page->neighbour != nullptr) page->neighbour->neighbour = nullptr;
    page->neighbour = nullptr;
    page->older = list;
    list = page;
  };
  while (HugePage* page = backed_.min()) {
    remove_backed(page);
    move(page);
  }
  while (HugePage* page = given_back_.min()) {
    remove_given_back(page);
    move(page);
  }
  last_made_ = nullptr;
  return list;
}

bool PagePool::give_up_space() {
  release_tables(Nanos::max());
  char *rest, *committed, *rest_end;
  HugePage* list;
  {
    LockGuard guard(lock_);
    list = detach_empty();
    rest = cursor_;
    committed = committed_;
    rest_end = limit_;
    counts_.committed_bytes -= static_cast<size_t>(committed_ - cursor_);
    counts_.reserved_bytes -= static_cast<size_t>(limit_ - cursor_);
    cursor_ = committed_ = limit_ = nullptr;
    next_chunk_ = kHugePageSize;
    collapse_due_.store(false, std::memory_order_relaxed);
    std::fill_n(first_pages_, kFirstPages, nullptr);  // they may be gone
    pages_made_ = std::max(pages_made_, kManyPages + 1);
  }
  bool any = rest != rest_end && system_.unmap(rest, static_cast<size_t>(rest_end - rest));
  if (rest != rest_end && !any) keep_rest(rest, committed, rest_end);
  while (HugePage* page = list) {
    list = page->older;
    any = true;
    const bool gone = system_.unmap(page->base, kHugePageSize);
    system_.discard(page->records, kPageRecordBytes);
    LockGuard guard(lock_);
    if (!gone) {  // the system refuses that as well: the page is what it was
      page->backed ? add_backed(page) : add_given_back(page);
      continue;
    }
    counts_.released += page->backed;
    counts_.released_blocks += page->backed_blocks();
    note_backed(-int64_t{page->backed_blocks()});
    page->backed = page->broken = false;
    page->dirty = {};
    note_committed(page, false);
    page->committed = true;  // the next one with this record
    counts_.reserved_bytes -= kHugePageSize;
    page->older = spare_;
    spare_ = page;
  }
  return any;
}

// It is lost if there is a new chunk already.
void PagePool::keep_rest(char* rest, char* committed, char* end) {
  LockGuard guard(lock_);
  if (cursor_ != limit_) return;
  cursor_ = rest;
  committed_ = committed;
  limit_ = end;
  counts_.committed_bytes += static_cast<size_t>(committed - rest);
  counts_.reserved_bytes += static_cast<size_t>(end - rest);
}

Collapse PagePool::make_huge(char* base) {
  system_.advise_huge(base, kHugePageSize, true);
  return system_.collapse(base, kHugePageSize);
}

// One that is broken by now stays so until it is mended, and one that was given back is huge when
// it is fetched. The others count as huge already.
void PagePool::collapse_first_pages() {
  if (!gets_huge_pages() || !collapse_due_.exchange(false, std::memory_order_relaxed)) return;
  for (size_t i = 0; i < kFirstPages; ++i) {
    char* base = nullptr;
    bool backed = false;
    {
      LockGuard guard(lock_);
      const HugePage* page = first_pages_[i];
      if (page != nullptr && !page->broken) base = page->base, backed = page->backed;
    }
    if (backed)
      make_huge(base);
    else if (base != nullptr)
      system_.advise_huge(base, kHugePageSize, true);
  }
}

bool PagePool::commit_more() {
  if (cursor_ == limit_ && !reserve_chunk()) return false;
  size_t step = static_cast<size_t>(limit_ - committed_);
  // As much again as there is: without overcommit the system counts it all, in each fork, too.
  const size_t most = std::clamp(counts_.committed_bytes, kHugePageSize, kCommitStep);
  if (step > most) step = most;
  while (!system_.commit(committed_, step)) {
    if (step == kHugePageSize) return false;
    step = align_up(step / 2, kHugePageSize);
  }
  system_.advise_huge(committed_, step, want_huge_);
  committed_ += step;
  counts_.committed_bytes += step;
  return true;
}

bool PagePool::reserve_chunk() {
  while (true) {
    char* chunk = static_cast<char*>(system_.reserve(next_chunk_, kHugePageSize));
    if (chunk && tables_.cover(chunk, next_chunk_)) {
      cursor_ = committed_ = chunk;
      limit_ = cursor_ + next_chunk_;
      counts_.reserved_bytes += next_chunk_;
      if (next_chunk_ < kLargestChunk) next_chunk_ *= 2;
      return true;
    }
    if (chunk) system_.unmap(chunk, next_chunk_);
    if (next_chunk_ == kHugePageSize) return false;
    next_chunk_ /= 2;
  }
}

PoolCounts PagePool::counts() {
  LockGuard guard(lock_);
  return counts_;
}

bool PagePool::is_consistent() {
  LockGuard guard(lock_);
  size_t empty = 0, blocks = 0, described = 0;
  bool good = backed_.is_consistent() && given_back_.is_consistent();
  backed_.for_each([&](HugePage* page) {
    ++empty, blocks += page->backed_blocks();
    good &= page->backed && page->used_blocks == 0;
  });
  given_back_.for_each([&](HugePage* page) {
    good &= !page->backed && page->given_back && page->used_blocks == 0;
    good &= page->neighbour == nullptr || page->neighbour->neighbour == page;
    described += page->has_tables;
  });
  good &= described_.count() == described && tables_hint_.load() == described;
  good &= empty == counts_.empty_backed && blocks == counts_.empty_blocks;
  return good && by_age_.count() == empty;
}

}  // namespace llamalloc
