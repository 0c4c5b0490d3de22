// SPDX-License-Identifier: Apache-2.0
// Mappings in use that are larger than what was asked for.
//
//   [ bytes | spare ]   a request that took a larger mapping: spare memory, listed
//                       what realloc made larger: room to grow, not listed, without memory
//
// Spare memory would be cut off, go back, and be fetched again a moment later. It goes back when
// fetching is not felt any more. Meanwhile its owner may come: an object that is to grow into it
// moves instead, and one that is freed is left to who gives it back. So nobody waits.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "heap/direct_mappings.h"

namespace llamalloc {

// How many bytes more than it asks for the next one may have.
size_t DirectMappings::room_for_spare() {
  if (!debt_.is_felt(system_.now_coarse())) return 0;
  return less(std::max(kMostUnasked, bytes() / kSparePart), spare_bytes());
}

// The smallest kept one that is large enough, as it is.
Span* DirectMappings::take_larger(size_t bytes, size_t alignment) {
  if (bytes >= kLeastJoined) return nullptr;
  {
    LockGuard guard(lock_);
    if (room_for_spare() == 0) return nullptr;
    retire_last(system_.now_coarse());
  }
  if (!system_.can_move()) return nullptr;
  LockGuard guard(lock_);
  const size_t room = room_for_spare();
  Span** best = nullptr;
  for (Span** link = &kept_; *link != nullptr; link = &(*link)->next_direct) {
    const Span& span = **link;
    if (span.bytes < bytes || span.bytes - bytes > room || span.bytes / kMostTimes > bytes)
      continue;
    if (reinterpret_cast<uintptr_t>(span.base) % alignment != 0) continue;
    if (best == nullptr || span.bytes < (*best)->bytes) best = link;
  }
  if (best == nullptr) return nullptr;
  Span* span = unlink(best);
  note_gap(span->freed, span->bytes);
  count_in(span->bytes);
  span->spare = static_cast<uint32_t>((span->bytes - bytes) / kSmallPage);
  span->bytes = bytes;
  if (span->spare != 0) list_spare(span), refused_trims_ = 0;
  return span;
}

// The first one goes back first, so that what the system refuses keeps no other from its turn.
void DirectMappings::list_spare(Span* span) {
  add(spare_, span->spare_bytes());
  if (spared_ == nullptr) spared_end_ = &spared_;
  span->next_direct = nullptr;
  span->back = spared_end_;
  *spared_end_ = span;
  spared_end_ = &span->next_direct;
  ++spared_count_;
  to_trim_.store(1, std::memory_order_relaxed);
}

void DirectMappings::unlist_spare(Span* span) {
  add(spare_, size_t{0} - span->spare_bytes());
  *span->back = span->next_direct;
  (span->next_direct != nullptr ? span->next_direct->back : spared_end_) = span->back;
  span->back = nullptr;
  if (--spared_count_ == 0) to_trim_.store(0, std::memory_order_relaxed);
}

// It has no spare pages afterwards. False: who gives them back has it, and frees it, if it is
// freed.
bool DirectMappings::take_in_spare(Span* span, bool freed) {
  LockGuard guard(lock_);
  if (trimming_ == span) {
    trimmed_is_freed_ = freed;
    return false;
  }
  span->back != nullptr ? unlist_spare(span) : add(bytes_, span->spare_bytes());
  span->bytes += span->spare_bytes();
  span->spare = 0;
  return true;
}

bool DirectMappings::grow_within(Span* span, size_t bytes) {
  const size_t more = bytes - span->bytes;
  if (more > span->spare_bytes()) return false;
  LockGuard guard(lock_);
  if (trimming_ == span) return false;
  const bool listed = span->back != nullptr;
  if (listed) unlist_spare(span);
  span->bytes = bytes;
  span->spare -= static_cast<uint32_t>(more / kSmallPage);
  if (listed && span->spare != 0) list_spare(span);
  if (listed) return true;
  add(bytes_, more);
  debt_.fetched(more, system_.now_coarse());
  tell_pages();
  grown_.store(true, std::memory_order_relaxed);
  return true;
}

// While the address may change, nobody finds the object there. The system may move it to where the
// map has no leaf, and cannot be asked to put it back.
void* DirectMappings::resize(Span* span, size_t bytes) {
  const size_t size = direct_size(bytes);
  if (size == span->bytes) return span->base;
  if (size < span->bytes) return change_size(span, size) ? span->base : nullptr;
  const size_t more = size - span->bytes;
  if (!makes_room(more)) return nullptr;
  const bool resized = grow_within(span, size) || change_size(span, size);
  pages_.note_promised(more);
  return resized ? span->base : nullptr;
}

bool DirectMappings::change_size(Span* span, size_t bytes) {
  if (span->spare != 0 && !take_in_spare(span, false)) return false;
  if (bytes > span->bytes && !map_.keep_spare(system_)) return false;
  map_.set(span->base, {1}, nullptr);
  const bool changed = remap_with_room(span, bytes);
  map_.set(span->base, {1}, span);
  return changed;
}

bool DirectMappings::remap_with_room(Span* span, size_t bytes) {
  const size_t before = span->bytes;
  const bool grows = bytes > before;
  const bool has_room = grows && gives_room_.load(std::memory_order_relaxed) && system_.can_move();
  size_t room = has_room ? std::min(align_down(bytes / kGrowthPart, kSmallPage), kHugePageSize) : 0;
  void* moved = system_.remap(span->base, before, bytes + room);
  if (moved == nullptr && room != 0) {
    room = 0;
    moved = system_.remap(span->base, before, bytes);
  }
  if (moved == nullptr) return false;
  CHECK(map_.cover(moved, 1, system_));
  if (grows) grown_.store(true, std::memory_order_relaxed);
  LockGuard guard(lock_);
  span->base = static_cast<char*>(moved);
  span->bytes = bytes;
  span->spare = static_cast<uint32_t>(room / kSmallPage);
  if (room != 0) span->back = nullptr;
  add(bytes_, bytes - before);
  const Nanos now = system_.now_coarse();
  grows ? debt_.fetched(bytes - before, now) : debt_.gave_back(before - bytes, now);
  tell_pages();
  return true;
}

Span* DirectMappings::next_to_trim(bool forced) {
  LockGuard guard(lock_);
  if (spared_ == nullptr || trimming_ != nullptr) return nullptr;
  if (!forced && debt_.is_felt(system_.now_coarse())) return nullptr;
  trimming_ = spared_;
  unlist_spare(trimming_);
  return trimming_;
}

// Returns how many bytes went back. Of a huge page that is cut the kernel frees nothing until it is
// split.
size_t DirectMappings::trim_one(bool forced) {
  Span* span = next_to_trim(forced);
  return span != nullptr ? trim(span) : 0;
}

void DirectMappings::finish_trimming() {
  Span* span;
  {
    LockGuard guard(lock_);
    span = trimming_;
  }
  if (span != nullptr) trim(span);
}

size_t DirectMappings::trim(Span* span) {
  const size_t spare = span->spare_bytes();
  char* const start = span->base + span->bytes;
  if (reinterpret_cast<uintptr_t>(start) % kHugePageSize != 0) system_.split(start);
  const bool gone = system_.discard(start, spare);  // not of memory that is locked (mlock)
  bool freed;
  {
    LockGuard guard(lock_);
    // A child that was forked in a signal handler meanwhile has done the rest.
    if (trimming_ != span) return 0;
    trimming_ = nullptr;
    freed = std::exchange(trimmed_is_freed_, false);
    if (gone) {
      refused_trims_ = 0;
      add(bytes_, size_t{0} - spare);
      debt_.gave_back(spare, system_.now_coarse());
      tell_pages();
    } else {
      list_spare(span);
      if (++refused_trims_ >= spared_count_) to_trim_.store(0, std::memory_order_relaxed);
    }
  }
  if (freed) deallocate(span);
  return gone ? spare : 0;
}

}  // namespace llamalloc
