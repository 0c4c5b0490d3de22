// SPDX-License-Identifier: Apache-2.0
#include "heap/heap.h"

#include "base/check.h"

namespace llamalloc {
namespace {

constexpr size_t kSmallPage = 4096;

bool has_deadline(PageGroup group) {
  return row(group).deadline.n != 0;
}

// What runs and direct mappings have in common: one object, and no thread may cache it.
void become_whole(Span* span, SpanKind kind) {
  span->kind = kind;
  span->magic = 1;
  span->slot_size = 0;
  span->bin = 0;
  span->local_offset = kNoLocalBin * kLocalBinStride;
  span->word_count = 0;
  span->slots = span->free_slots = 0;
  span->page = nullptr;
}

uint32_t first_block(const HugePage* page, const char* start) {
  return static_cast<uint32_t>(start - page->base) >> kBlockShift;
}

}  // namespace

// ----- Slots -----

namespace {

// Takes up to n slots of the span, the lowest first, and writes them downwards from `end`.
size_t take_from_span(Span* span, void** end, size_t n) {
  void** out = end;
  char* base = span->base;
  const size_t size = span->slot_size;
  uint64_t* const words_end = span->words() + span->word_count;
  for (uint64_t* word = span->words(); word != words_end && n != 0; ++word, base += 64 * size) {
    uint64_t mask = *word;
    for (; mask != 0 && n != 0; mask &= mask - 1, --n)
      *--out = base + static_cast<size_t>(std::countr_zero(mask)) * size;
    Span::store_word(word, mask);
  }
  const size_t taken = static_cast<size_t>(end - out);
  span->free_slots = static_cast<uint16_t>(span->free_slots - taken);
  return taken;
}

}  // namespace

// Opens a new span only for the first slot: what a thread takes beyond is for its convenience.
size_t Heap::take(int bin_index, void** out, size_t n) {
  Bin& bin = bins_[bin_index];
  LockGuard guard(bin.lock);
  size_t taken = 0;
  while (taken < n) {
    Span* span = bin.partial.min();
    if (span == nullptr) {
      if (taken != 0 || (span = new_span(bin_index)) == nullptr) break;
      bin.partial.insert(span);
    }
    SLOW_DCHECK(span->is_consistent());
    taken += take_from_span(span, out + n - taken, n - taken);
    if (span->free_slots == 0) bin.partial.remove(span);
    if (has_deadline(span->page->group))
      span->page->last_taken.store(system_.now_coarse().n, std::memory_order_relaxed);
  }
  return taken;
}

// Slots freed together often lie together: a span is looked up, counted and put in its list once
// for all of its slots that come in a row.
void* Heap::give(int bin_index, void* const* slots, size_t n) {
  void* twice = nullptr;
  Bin& bin = bins_[bin_index];
  LockGuard guard(bin.lock);
  for (size_t i = 0; i < n;) {
    Span* span = map_.find(slots[i]);
    if (span == nullptr || span->bin != bin_index || span->kind != SpanKind::slots) {
      twice = slots[i++];
      continue;
    }
    uint64_t* const words = span->words();
    const size_t first = i;
    uint32_t freed = 0;
    for (; i < n; ++i) {
      const uint32_t slot = span->slot_of(slots[i]);
      if (slot >= span->slots) break;
      uint64_t* const word = &words[slot >> 6];
      const uint64_t bit = uint64_t{1} << (slot & 63);
      if ((*word & bit) != 0) {
        twice = slots[i];
        continue;
      }
      Span::store_word(word, *word | bit);
      ++freed;
    }
    if (i == first) twice = slots[i++];  // not an object: behind the last slot of its span
    count_freed(bin, span, freed);
  }
  return twice;
}

void Heap::count_freed(Bin& bin, Span* span, uint32_t freed) {
  if (freed == 0) return;
  const uint32_t before = span->free_slots;
  span->free_slots = static_cast<uint16_t>(before + freed);
  SLOW_DCHECK(span->is_consistent());
  if (span->free_slots == span->slots) {
    if (before != 0) bin.partial.remove(span);
    free_span(span);
  } else if (before == 0) {
    bin.partial.insert(span);
  }
}

Span* Heap::new_span(int bin_index) {
  const SizeClassRow& shape = kSizeClassRows[bin_index % kSizeClasses];
  const int words = (shape.slots + 63) / 64;
  const Blocks blocks{shape.blocks};
  const PageSet::Place place = take_blocks(group_of_bin(bin_index), blocks, 1);
  if (place.page == nullptr) return nullptr;
  Span* span = place.page->record_at(place.first);
  span->base = place.page->base + place.first * kBlockSize;
  span->magic = shape.magic;
  span->slot_size = shape.size;
  span->bin = static_cast<uint16_t>(bin_index);
  span->local_offset =
      static_cast<uint16_t>((bin_index < kLocalBins ? bin_index : kNoLocalBin) * kLocalBinStride);
  span->kind = SpanKind::slots;
  span->sampled = bin_index >= kLocalBins;
  span->fresh = place.fresh;
  span->word_count = static_cast<uint8_t>(words);
  span->slots = span->free_slots = shape.slots;
  span->page = place.page;
  for (int w = 0; w < words; ++w) {
    const int left = shape.slots - w * 64;
    span->words()[w] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
  }
  map_.set(span->base, blocks, span);
  return span;
}

void Heap::free_span(Span* span) {
  const Blocks blocks{kSizeClassRows[span->bin % kSizeClasses].blocks};
  map_.set(span->base, blocks, nullptr);
  give_blocks(span->page, span->base, blocks);
}

// ----- Blocks -----

PageSet::Place Heap::take_in(PageGroup group, PageKind kind, Blocks blocks, uint32_t alignment) {
  PageSet& set = set_of(group, kind);
  if (!set.has_pages()) return {};
  LockGuard guard(set.lock());
  PageSet::Place place = set.take(blocks, alignment);
  if (place.page && has_deadline(place.page->group))
    place.page->last_taken.store(system_.now_coarse().n, std::memory_order_relaxed);
  return place;
}

PageSet::Place Heap::take_blocks(PageGroup group, Blocks blocks, uint32_t alignment) {
  PageSet::Place place = take_in(group, PageKind::native, blocks, alignment);
  for (int g = static_cast<int>(group); g < kPageGroups && place.page == nullptr; ++g)
    place = take_in(static_cast<PageGroup>(g), PageKind::promoted, blocks, alignment);
  if (place.page == nullptr && pages_in_use() < small_heap_ && group != PageGroup::unknown)
    place = take_in(PageGroup::unknown, PageKind::native, blocks, alignment);
  return place.page ? place : open_page(group, blocks);
}

PageSet::Place Heap::open_page(PageGroup group, Blocks blocks) {
  HugePage* page = pool_.acquire();
  if (page == nullptr && release_direct(Nanos::max()) != 0) page = pool_.acquire();
  if (page == nullptr) return {};
  page->group = group;
  page->opened = system_.now_coarse();
  page->last_taken.store(page->opened.n, std::memory_order_relaxed);
  PageSet& set = set_of(group, PageKind::native);
  LockGuard guard(set.lock());
  return set.take_first(page, blocks);
}

// A page may be promoted to another set while we wait for the lock of the one it was in.
void Heap::give_blocks(HugePage* page, char* start, Blocks blocks) {
  while (true) {
    PageSet* set = page->set.load(std::memory_order_acquire);
    LockGuard guard(set->lock());
    if (page->set.load(std::memory_order_relaxed) != set) continue;
    if (set->give_back(page, first_block(page, start), blocks))
      pool_.put_empty(page, system_.now_coarse());
    return;
  }
}

void Heap::promote(HugePage* page, Nanos now) {
  PageSet* from = page->set.load(std::memory_order_relaxed);
  page->group = static_cast<PageGroup>(static_cast<int>(page->group) + 1);
  page->promoted = true;
  page->last_taken.store(now.n, std::memory_order_relaxed);
  PageSet& to = set_of(page->group, PageKind::promoted);
  from->remove(page);
  LockGuard guard(to.lock());
  to.add(page);
}

// Only one thread sweeps at a time, so that two sets are locked in no conflicting order: towards
// the longer-lived groups, native before promoted.
size_t Heap::promote_expired(Nanos now) {
  size_t promoted = 0;
  for (int g = kPageGroups - 2; g >= 0; --g) {
    const PageGroup group = static_cast<PageGroup>(g);
    if (!has_deadline(group)) continue;
    for (PageSet& set : sets_[g]) {
      LockGuard guard(set.lock());
      while (HugePage* page = set.find([&](HugePage* p) {
        return now.n - p->last_taken.load(std::memory_order_relaxed) > row(group).deadline.n;
      })) {
        promote(page, now);
        ++promoted;
      }
    }
  }
  return promoted;
}

// ----- Runs and direct mappings -----

Span* Heap::allocate(size_t bytes, size_t alignment, PageGroup group, bool sampled) {
  if (bytes > kRunMax || alignment > kRunMax) return allocate_direct(bytes, alignment, sampled);
  Blocks blocks = Blocks::covering(bytes);
  if (blocks.n < kLeastSpanBlocks) blocks.n = kLeastSpanBlocks;
  const uint32_t align_blocks =
      alignment > kBlockSize ? static_cast<uint32_t>(alignment >> kBlockShift) : 1;
  const PageSet::Place place = take_blocks(group, blocks, align_blocks);
  if (place.page == nullptr) return nullptr;
  Span* span = place.page->record_at(place.first);
  become_whole(span, SpanKind::run);
  span->base = place.page->base + place.first * kBlockSize;
  span->page = place.page;
  span->sampled = sampled;
  span->fresh = place.fresh;
  span->bytes = blocks.bytes();
  map_.set(span->base, {1}, span);
  return span;
}

Span* Heap::allocate_direct(size_t bytes, size_t alignment, bool sampled) {
  const size_t size = align_up(bytes, kSmallPage);
  if (size >= kHugePageSize && alignment < kHugePageSize) alignment = kHugePageSize;
  if (alignment < kBlockSize) alignment = kBlockSize;
  if (Span* span = reuse_direct(size, alignment)) {
    span->sampled = sampled;
    map_.set(span->base, {1}, span);
    return span;
  }
  Span* span = new_direct_record();
  if (span == nullptr) return nullptr;
  void* start = system_.map(size, alignment);
  if (start == nullptr && release_direct(Nanos::max()) != 0) start = system_.map(size, alignment);
  if (start == nullptr && pool_.give_up_space()) start = system_.map(size, alignment);
  if (start == nullptr || !map_.cover(start, 1, system_)) {
    if (start) system_.unmap(start, size);
    free_direct_record(span);
    return nullptr;
  }
  if (size >= kHugePageSize && pool_.wants_huge_pages()) system_.advise_huge(start, size, true);
  become_whole(span, SpanKind::direct);
  span->base = static_cast<char*>(start);
  span->sampled = sampled;
  span->fresh = true;
  span->bytes = size;
  map_.set(start, {1}, span);
  link_direct(span);
  return span;
}

void Heap::deallocate(Span* span) {
  map_.set(span->base, {1}, nullptr);
  if (span->kind == SpanKind::direct) {
    unlink_direct(span);
    span->bytes <= kCachedDirectBytes ? cache_direct(span) : unmap_direct(span);
    return;
  }
  give_blocks(span->page, span->base, Blocks::covering(span->bytes));
}

namespace {

// Takes the first of the list that fits and wastes at most an eighth out of it; null: there is
// none.
Span* take_fitting(Span** link, size_t bytes, size_t alignment) {
  for (; *link != nullptr; link = &(*link)->next_direct) {
    Span* span = *link;
    const bool fits = span->bytes >= bytes && span->bytes - bytes <= bytes / 8;
    if (!fits || reinterpret_cast<uintptr_t>(span->base) % alignment != 0) continue;
    *link = span->next_direct;
    return span;
  }
  return nullptr;
}

}  // namespace

// The newest that fits; linked as in use, but not in the map yet.
Span* Heap::reuse_direct(size_t bytes, size_t alignment) {
  if (cached_direct_bytes() == 0 && !any_refused_.load(std::memory_order_relaxed)) return nullptr;
  LockGuard guard(direct_lock_);
  Span* span = take_fitting(&cached_direct_, bytes, alignment);
  if (span != nullptr) {
    cached_directs_.fetch_sub(1, std::memory_order_relaxed);
    cached_direct_bytes_.fetch_sub(span->bytes, std::memory_order_relaxed);
  } else {
    span = take_fitting(&refused_direct_, bytes, alignment);
  }
  if (span != nullptr) link_direct_locked(span);
  return span;
}

// The newest is always kept; older ones only as far as they are little beside what is in use.
void Heap::cache_direct(Span* span) {
  const size_t in_use = pages_in_use() * kHugePageSize + direct_bytes();
  while (cached_direct_bytes() != 0 &&
         (cached_directs() == kCachedDirect || cached_direct_bytes() + span->bytes > in_use / 16)) {
    Span* oldest = take_cached_direct(Nanos::max());
    if (oldest == nullptr) break;
    unmap_direct(oldest);
  }
  const Nanos now = system_.now_coarse();
  LockGuard guard(direct_lock_);
  span->fresh = false;
  span->freed = now.n;
  span->next_direct = cached_direct_;
  cached_direct_ = span;
  cached_directs_.fetch_add(1, std::memory_order_relaxed);
  cached_direct_bytes_.fetch_add(span->bytes, std::memory_order_relaxed);
}

// The oldest of the cached mappings, if it was freed up to `before`.
Span* Heap::take_cached_direct(Nanos before) {
  LockGuard guard(direct_lock_);
  Span** link = &cached_direct_;
  while (*link != nullptr && (*link)->next_direct != nullptr) link = &(*link)->next_direct;
  Span* span = *link;
  if (span == nullptr || span->freed > before.n) return nullptr;
  *link = nullptr;
  cached_directs_.fetch_sub(1, std::memory_order_relaxed);
  cached_direct_bytes_.fetch_sub(span->bytes, std::memory_order_relaxed);
  return span;
}

size_t Heap::release_direct(Nanos before) {
  size_t released = 0;
  while (Span* span = take_cached_direct(before)) {
    unmap_direct(span);
    ++released;
  }
  return released;
}

// A mapping that the system refuses to take (a filter; it would split one mapping too many) is kept
// for a later request, emptied.
void Heap::unmap_direct(Span* span) {
  if (system_.unmap(span->base, span->bytes)) return free_direct_record(span);
  system_.discard(span->base, span->bytes);
  LockGuard guard(direct_lock_);
  span->next_direct = refused_direct_;
  refused_direct_ = span;
  span->fresh = false;
  any_refused_.store(true, std::memory_order_relaxed);
}

void* Heap::resize(Span* span, size_t bytes) {
  if (span->kind == SpanKind::direct) return resize_direct(span, bytes);
  if (span->kind != SpanKind::run || bytes > kRunMax || bytes <= kSmallMax) return nullptr;
  const Blocks have = Blocks::covering(span->bytes);
  const Blocks want = Blocks::covering(bytes);
  if (want > have && !extend_run(span, have, want)) return nullptr;
  if (want < have) give_blocks(span->page, span->base + want.bytes(), {have.n - want.n});
  span->bytes = want.bytes();
  return span->base;
}

bool Heap::extend_run(Span* span, Blocks have, Blocks want) {
  HugePage* page = span->page;
  while (true) {
    PageSet* set = page->set.load(std::memory_order_acquire);
    LockGuard guard(set->lock());
    if (page->set.load(std::memory_order_relaxed) != set) continue;
    return set->extend(page, first_block(page, span->base), have, want);
  }
}

void* Heap::resize_direct(Span* span, size_t bytes) {
  if (bytes <= kRunMax) return nullptr;
  const size_t size = align_up(bytes, kSmallPage);
  if (size == span->bytes) return span->base;
  unlink_direct(span);
  map_.set(span->base, {1}, nullptr);
  void* moved = system_.remap(span->base, span->bytes, size);
  if (moved != nullptr && !map_.cover(moved, 1, system_)) {
    moved = system_.remap(moved, size, span->bytes);
    CHECK(moved != nullptr && map_.cover(moved, 1, system_));
    span->base = static_cast<char*>(moved);
    moved = nullptr;
  }
  if (moved != nullptr) {
    span->base = static_cast<char*>(moved);
    span->bytes = size;
  }
  map_.set(span->base, {1}, span);
  link_direct(span);
  return moved;
}

void Heap::link_direct(Span* span) {
  LockGuard guard(direct_lock_);
  link_direct_locked(span);
}

void Heap::link_direct_locked(Span* span) {
  span->previous_direct = nullptr;
  span->next_direct = direct_;
  if (direct_) direct_->previous_direct = span;
  direct_ = span;
  direct_bytes_.fetch_add(span->bytes, std::memory_order_relaxed);
}

void Heap::unlink_direct(Span* span) {
  LockGuard guard(direct_lock_);
  if (span->previous_direct)
    span->previous_direct->next_direct = span->next_direct;
  else
    direct_ = span->next_direct;
  if (span->next_direct) span->next_direct->previous_direct = span->previous_direct;
  direct_bytes_.fetch_sub(span->bytes, std::memory_order_relaxed);
}

Span* Heap::new_direct_record() {
  {
    LockGuard guard(direct_lock_);
    if (Span* span = free_direct_records_) {
      free_direct_records_ = span->next_direct;
      return span;
    }
  }
  return arena_.make_array<Span>(1);
}

void Heap::free_direct_record(Span* span) {
  LockGuard guard(direct_lock_);
  span->next_direct = free_direct_records_;
  free_direct_records_ = span;
}

// ----- Looking at the whole -----

GroupCounts Heap::count(PageGroup group) {
  GroupCounts counts;
  for (PageSet& set : sets_[static_cast<int>(group)]) {
    LockGuard guard(set.lock());
    set.for_each([&](HugePage* page) {
      ++counts.pages;
      counts.free_blocks += (kBlocksPerHugePage - page->used_blocks) * kBlockSize;
      counts.allocated += page->used_blocks * kBlockSize;
      for_each_span(*page, [&](const Span& span) {
        if (span.kind != SpanKind::slots) return;
        const size_t free = size_t{span.count_free()} * span.slot_size;
        const size_t rest = kSizeClassRows[span.bin % kSizeClasses].blocks * kBlockSize -
                            span.slots * span.slot_size;
        counts.free_slots += free + rest;
        counts.allocated -= free + rest;
      });
    });
  }
  return counts;
}

size_t Heap::direct_count() {
  LockGuard guard(direct_lock_);
  size_t n = 0;
  for (const Span* span = direct_; span != nullptr; span = span->next_direct) ++n;
  return n;
}

void Heap::lock_all() {
  for (Bin& bin : bins_) bin.lock.lock();
  for (auto& sets : sets_)
    for (PageSet& set : sets) set.lock().lock();
  pool_.lock().lock();
  direct_lock_.lock();
  arena_.lock().lock();
}

void Heap::unlock_all() {
  arena_.lock().unlock();
  direct_lock_.unlock();
  pool_.lock().unlock();
  for (auto& sets : sets_)
    for (PageSet& set : sets) set.lock().unlock();
  for (Bin& bin : bins_) bin.lock.unlock();
}

void Heap::reset_locks_after_fork() {
  arena_.lock().reset();
  direct_lock_.reset();
  pool_.lock().reset();
  for (auto& sets : sets_)
    for (PageSet& set : sets) set.lock().reset();
  for (Bin& bin : bins_) bin.lock.reset();
}

bool Heap::any_lock_is_held() {
  bool held = pool_.lock().is_held() || direct_lock_.is_held() || arena_.lock().is_held();
  for (auto& sets : sets_)
    for (PageSet& set : sets) held |= set.lock().is_held();
  for (Bin& bin : bins_) held |= bin.lock.is_held();
  return held;
}

bool Heap::is_consistent() {
  bool good = pool_.is_consistent();
  for (Bin& bin : bins_) {
    LockGuard guard(bin.lock);
    good &= bin.partial.is_consistent();
    bin.partial.for_each([&](Span* span) {
      good &= span->is_consistent() && span->free_slots > 0 && map_.find(span->base) == span;
    });
  }
  for (auto& sets : sets_)
    for (PageSet& set : sets) {
      LockGuard guard(set.lock());
      good &= set.is_consistent();
    }
  return good;
}

}  // namespace llamalloc
