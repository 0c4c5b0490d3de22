// SPDX-License-Identifier: Apache-2.0
#include "heap/direct_mappings.h"

#include <algorithm>

#include "base/check.h"

namespace llamalloc {

// Takes the first of the list that fits out of it; null: there is none.
Span* DirectMappings::take_fitting(Span** link, size_t bytes, size_t alignment) {
  for (; *link != nullptr; link = &(*link)->next_direct) {
    Span* span = *link;
    if (!fits(span->bytes, bytes) || reinterpret_cast<uintptr_t>(span->base) % alignment != 0)
      continue;
    *link = span->next_direct;
    return span;
  }
  return nullptr;
}

Span* DirectMappings::allocate(size_t bytes, size_t alignment, bool sampled, bool grows) {
  if (!pages_.could_take(bytes)) return nullptr;
  const bool apart = count() < kApartMappings;
  const size_t size = align_up(direct_size(bytes), apart ? kSmallPage : kBlockSize);
  const size_t natural = natural_alignment(size);
  Span* span = alignment <= natural ? take_last(size) : nullptr;
  alignment = std::max(alignment, apart ? natural : kBlockSize);
  if (span == nullptr) span = reuse(size, alignment);
  if (span == nullptr) span = take_larger(size, alignment);
  if (span == nullptr && !grows) span = join(size, alignment);
  if (span == nullptr) span = reshape(size, alignment);
  if (span == nullptr && (span = make(size, alignment)) != nullptr) note_fetched(size);
  if (span == nullptr) return nullptr;
  span->sampled = sampled;
  map_.set(span->base, {1}, span);
  return span;
}

// It becomes one of those that were freed before, at that time; the caller holds the lock.
void DirectMappings::retire_last(Nanos freed) {
  Span* span = span_of(last_.exchange(0, std::memory_order_acquire));
  if (span == nullptr) return;
  count_out(span->bytes);
  span->freed = freed.n;
  keep(span);
}

Span* DirectMappings::reuse(size_t bytes, size_t alignment) {
  LockGuard guard(lock_);
  if (alignment > natural_alignment(bytes)) retire_last(system_.now_coarse());
  Span* span = take_fitting(&kept_, bytes, alignment);
  if (span != nullptr) {
    --kept_count_;
    add(kept_bytes_, size_t{0} - span->bytes);
    note_gap(span->freed, span->bytes);
  } else {
    span = take_fitting(&refused_, bytes, alignment);
  }
  if (span != nullptr) count_in(span->bytes);
  return span;
}

// A kept mapping of another size; null: none is near enough.
Span* DirectMappings::reshape(size_t bytes, size_t alignment) {
  if (alignment > natural_alignment(bytes)) return nullptr;
  Span* span = take_nearest(bytes);
  if (span == nullptr) return nullptr;
  const size_t more = less(bytes, span->bytes);
  const bool may = more == 0 || pages_.promise(more);
  const bool fits = may && fit_and_count(span, bytes, alignment);
  if (may) pages_.note_promised(more);
  if (!fits) unmap(span);
  return fits ? span : nullptr;
}

bool DirectMappings::fit_and_count(Span* span, size_t bytes, size_t alignment) {
  const size_t before = span->bytes;
  const int64_t freed = span->freed;
  const size_t kept = fit_to(span, bytes);
  // Where address space is scarce, the system may move it to a place that is not aligned.
  if (kept == 0 || reinterpret_cast<uintptr_t>(span->base) % alignment != 0) return false;
  span->grown = true;
  span->used = kept;
  LockGuard guard(lock_);
  const Nanos now = system_.now_coarse();
  note_gap(freed, kept);
  count_gone(before - kept, freed, now);
  count_fetched(span->bytes - kept, now);
  count_in(span->bytes);
  return true;
}

// Takes out the kept mapping that needs to grow or shrink least, within a factor of four; or of
// two, where what it loses would be missed by the next request of its own size.
Span* DirectMappings::take_nearest(size_t bytes) {
  LockGuard guard(lock_);
  const Nanos now = system_.now_coarse();
  const size_t factor = debt_.is_owed(now) ? 2 : 4;
  const uintptr_t last = last_.load(std::memory_order_relaxed);
  if ((last & kAligned) != 0 && is_near(bytes_of(last), bytes, factor)) retire_last(now);
  Span** nearest = nullptr;
  size_t distance = SIZE_MAX;
  for (Span** link = &kept_; *link != nullptr; link = &(*link)->next_direct) {
    const Span& span = **link;
    const size_t apart = span.bytes > bytes ? span.bytes - bytes : bytes - span.bytes;
    if (apart >= distance || !is_near(span.bytes, bytes, factor)) continue;
    if (reinterpret_cast<uintptr_t>(span.base) % natural_alignment(bytes) != 0) continue;
    nearest = link;
    distance = apart;
  }
  return nearest != nullptr ? unlink(nearest) : nullptr;
}

// Of the kept ones; the caller holds the lock.
Span* DirectMappings::unlink(Span** link) {
  Span* span = *link;
  *link = span->next_direct;
  --kept_count_;
  add(kept_bytes_, size_t{0} - span->bytes);
  return span;
}

// It is cut where a page ends: a huge one, if it is that large, as the kernel frees nothing of one
// that it only unmaps in part. Returns how many bytes of memory it keeps; 0: not possible.
size_t DirectMappings::fit_to(Span* span, size_t bytes) {
  const size_t page = page_of(bytes);
  const size_t rounded = align_up(bytes, page);
  const size_t target = rounded <= span->bytes && fits(rounded, bytes) ? rounded : bytes;
  const size_t whole = align_down(target < span->bytes ? target : span->bytes, page);
  return move_to(span, whole) && move_to(span, target) ? whole : 0;
}

bool DirectMappings::move_to(Span* span, size_t bytes) {
  if (bytes == span->bytes) return true;
  void* moved = system_.remap(span->base, span->bytes, bytes);
  if (moved == nullptr) return false;
  if (bytes > span->bytes) grown_.store(true, std::memory_order_relaxed);
  span->base = static_cast<char*>(moved);
  span->bytes = bytes;
  return map_.cover(moved, 1, system_);
}

// Within hard_limit: what is empty goes back first. True: so much is promised (PageHeap::promise).
bool DirectMappings::makes_room(size_t bytes) {
  if (pages_.promise(bytes)) return true;
  if (!pages_.could_take(bytes)) return false;
  release(Nanos::max());
  if (pages_.promise(bytes)) return true;
  pages_.release_now(bytes);
  return pages_.promise(bytes);
}

Span* DirectMappings::make(size_t bytes, size_t alignment) {
  if (!makes_room(bytes)) return nullptr;
  Span* span = new_record(bytes);
  pages_.note_promised(bytes);
  if (span == nullptr) return nullptr;
  void* start = map(bytes, alignment);
  if (start == nullptr || !map_.cover(start, 1, system_)) {
    if (start) system_.unmap(start, bytes);
    LockGuard guard(lock_);
    count_out(bytes);
    free_record(span);
    return nullptr;
  }
  if (bytes >= kHugePageSize && pages_.gets_huge_pages()) system_.advise_huge(start, bytes, true);
  span->become_whole(SpanKind::direct);
  span->base = static_cast<char*>(start);
  span->fresh = true;
  span->bytes = bytes;
  grown_.store(true, std::memory_order_relaxed);
  return span;
}

// The system is asked for what giving back all that we could would not help with. Whoever asks for
// more than there is, maybe because somebody sent a wrong length, is not to cost us what is empty.
bool DirectMappings::could_map(size_t bytes) {
  if (!pages_.could_take(bytes)) return false;
  const size_t ours = pages_.counts().reserved_bytes + kept_bytes() + spare_bytes();
  if (bytes <= ours) return true;
  const size_t beyond = align_up(bytes - ours, kSmallPage);
  void* probe = system_.map(beyond, kSmallPage);
  if (probe != nullptr) system_.unmap(probe, beyond);
  return probe != nullptr;
}

// What is empty makes room when address space is scarce.
void* DirectMappings::map(size_t bytes, size_t alignment) {
  void* start = system_.map(bytes, alignment);
  if (start == nullptr && !could_map(bytes)) return nullptr;
  if (start == nullptr && release(Nanos::max()) != 0) start = system_.map(bytes, alignment);
  if (start == nullptr && pages_.give_up_space()) start = system_.map(bytes, alignment);
  return start;
}

// The caller holds the lock.
Span* DirectMappings::take_record() {
  Span* span = free_records_;
  if (span == nullptr) return arena_.make_array<Span>(1);
  free_records_ = span->next_direct;
  return span;
}

Span* DirectMappings::new_record(size_t bytes) {
  LockGuard guard(lock_);
  Span* span = take_record();
  if (span == nullptr) return nullptr;
  count_in(bytes);
  return span;
}

// A longer hold would have kept what is fetched again.
void DirectMappings::count_fetched(size_t bytes, Nanos now) {
  debt_.fetched(bytes, now);
  gone_.take(bytes, [&](Nanos freed, size_t part) { note_gap(freed.n, part); });
}

// What was freed last may have no time of its own.
void DirectMappings::count_gone(size_t bytes, int64_t freed, Nanos now) {
  debt_.gave_back(bytes, now);
  gone_.add(bytes, Nanos{std::min(freed, now.n)});
}

void DirectMappings::note_fetched(size_t bytes) {
  LockGuard guard(lock_);
  count_fetched(bytes, system_.now_coarse());
}

void DirectMappings::note_gap(int64_t freed, size_t bytes) {
  const int64_t now = system_.now_coarse().n;
  if (freed <= now) gaps_.add(Nanos{now - freed}, bytes);
}

void DirectMappings::free_record(Span* span) {
  span->next_direct = free_records_;
  free_records_ = span;
}

void DirectMappings::deallocate(Span* span) {
  if (span->spare != 0 && !take_in_spare(span, true)) return;
  if (span->bytes > kKeptMappingMax) {
    {
      LockGuard guard(lock_);
      count_out(span->bytes);
    }
    return unmap(span);
  }
  keep_as_last(span);
}

void DirectMappings::keep_as_last(Span* span) {
  // Of two threads at once one is lost: there were some.
  times_freed_.store(times_freed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const uintptr_t word = word_of(span);
  const uintptr_t before = last_.exchange(word, std::memory_order_acq_rel);
  if (before != 0) keep_older(span_of(before));
}

// Those that are too much beside what is in use leave, the oldest first.
void DirectMappings::keep_older(Span* span) {
  Span* leaving = nullptr;
  {
    LockGuard guard(lock_);
    const Nanos now = system_.now_coarse();
    count_out(span->bytes);
    span->freed = now.n;
    keep(span);
    const size_t most = most_kept(now);
    const int most_mappings = debt_.is_owed(now) ? kOwedMappings : kKeptMappings;
    while (kept_ != nullptr && kept_bytes() > kAlwaysKept &&
           (kept_count_ >= most_mappings || kept_bytes() > most)) {
      Span* oldest = take_oldest(Nanos::max());
      oldest->next_direct = leaving;
      leaving = oldest;
    }
  }
  while (Span* next = leaving) {
    leaving = next->next_direct;
    unmap(next);
  }
}

size_t DirectMappings::most_kept(Nanos now) {
  const bool watched = now.n - looked_.load(std::memory_order_relaxed) <= kWatched.n;
  if (watched && debt_.lasts()) return SIZE_MAX;
  const size_t in_use = pages_.in_use() * kHugePageSize + bytes();
  const size_t part = in_use / kKeptPart;
  if (!debt_.is_owed(now)) return part;
  return std::max({part, kOwedKept, watched ? less(peak_.value(), in_use) : 0});
}

void DirectMappings::keep(Span* span) {
  span->fresh = span->grown = false;
  span->next_direct = kept_;
  kept_ = span;
  ++kept_count_;
  add(kept_bytes_, span->bytes);
  tell_pages();
}

// The oldest of the kept ones, if it was freed up to `before`; the caller holds the lock.
Span* DirectMappings::take_oldest(Nanos before) {
  Span** link = &kept_;
  while (*link != nullptr && (*link)->next_direct != nullptr) link = &(*link)->next_direct;
  Span* span = *link;
  if (span == nullptr || span->freed > before.n) return nullptr;
  unlink(link);
  tell_pages();
  return span;
}

// What was freed last has no time of its own.
size_t DirectMappings::release(Nanos before) {
  {
    LockGuard guard(lock_);
    const uint32_t freed = times_freed_.load(std::memory_order_relaxed);
    if (freed == seen_freed_ || before == Nanos::max()) retire_last(before);
    seen_freed_ = freed;
  }
  size_t bytes = 0;
  while (const size_t more = unmap_oldest(before)) bytes += more;
  while (const size_t more = trim_one(before == Nanos::max())) bytes += more;
  return bytes;
}

// Returns its bytes; 0: none was freed up to `before`, or no more than `spared` are kept.
size_t DirectMappings::unmap_oldest(Nanos before, size_t spared) {
  Span* oldest;
  {
    LockGuard guard(lock_);
    oldest = kept_bytes() > spared ? take_oldest(before) : nullptr;
  }
  if (oldest == nullptr) return 0;
  const size_t bytes = oldest->bytes;
  unmap(oldest);
  return bytes;
}

size_t DirectMappings::release_now(size_t bytes, size_t spared) {
  size_t gone = 0;
  while (gone < bytes) {
    const size_t more = unmap_oldest(Nanos::max(), spared);
    if (more == 0 && !retire_last_now()) break;
    gone += more;
  }
  return gone;
}

size_t DirectMappings::spared() {
  LockGuard guard(lock_);
  if (!debt_.is_owed(system_.now_coarse())) return 0;
  return std::min(bytes() / kSparePart, kMostSpare);
}

// False: there was none.
bool DirectMappings::retire_last_now() {
  LockGuard guard(lock_);
  if (last_.load(std::memory_order_relaxed) == 0) return false;
  retire_last(system_.now_coarse());
  return true;
}

// A mapping that the system refuses to take (a filter; it would split one mapping too many) stays
// for a later request, emptied.
void DirectMappings::unmap(Span* span) {
  const bool gone = span->bytes == 0 || system_.unmap(span->base, span->bytes);
  if (!gone) system_.discard(span->base, span->bytes);
  LockGuard guard(lock_);
  tell_pages();
  if (span->bytes <= kKeptMappingMax) count_gone(span->bytes, span->freed, system_.now_coarse());
  if (gone) return free_record(span);
  span->next_direct = refused_;
  refused_ = span;
  span->fresh = span->grown = false;
}

bool DirectMappings::is_consistent() {
  LockGuard guard(lock_);
  size_t bytes = 0;
  int n = 0;
  bool good = (count() == 0) == (this->bytes() == 0);
  for (const Span* span = kept_; span != nullptr; span = span->next_direct) {
    bytes += span->bytes;
    ++n;
    good &= span->kind == SpanKind::direct && map_.find(span->base) != span;
  }
  size_t spare = 0;
  for (const Span* span = spared_; span != nullptr; span = span->next_direct) {
    spare += span->spare_bytes();
    good &= span->spare != 0 && *span->back == span;
  }
  good &= spare == spare_.load(std::memory_order_relaxed) && spare <= this->bytes();
  return good && bytes == kept_bytes_.load(std::memory_order_relaxed) && n == kept_count_;
}

}  // namespace llamalloc
