// SPDX-License-Identifier: Apache-2.0
// Kept mappings in pieces, where the system would only take and zero what is fetched again a moment
// later. A piece is whole huge pages.
#include <algorithm>
#include <utility>

#include "heap/direct_mappings.h"

namespace llamalloc {
namespace {

// A request is rounded up to a huge page if that adds at most this part: its end would be small
// pages, whose faults cost as much, and which no other request can take over.
constexpr size_t kRoundedPart = 10;

}  // namespace

Span* DirectMappings::join(size_t bytes, size_t alignment) {
  if (bytes < kLeastJoined || alignment > kHugePageSize) return nullptr;
  const size_t whole = align_up(bytes, kHugePageSize);
  const size_t size = whole - bytes <= bytes / kRoundedPart ? whole : bytes;
  {
    LockGuard guard(lock_);
    const Nanos now = system_.now_coarse();
    if (!debt_.is_felt(now)) return nullptr;
    retire_last(now);
  }
  if (!system_.can_move()) return nullptr;
  if (Span* span = size == whole ? take_piece(size, false) : nullptr) {
    cut_off(span, size);
    LockGuard guard(lock_);
    note_gap(span->freed, span->bytes);
    count_in(span->bytes);
    return span;
  }
  Span* span = make(size, kHugePageSize);
  if (span == nullptr) return nullptr;
  span->used = fill_from_kept(span);
  span->grown = true;
  span->fresh = false;
  note_fetched(size - span->used);
  return span;
}

// The smallest or largest kept mapping of at least so many bytes.
Span* DirectMappings::take_piece(size_t least, bool largest) {
  LockGuard guard(lock_);
  Span** best = nullptr;
  for (Span** link = &kept_; *link != nullptr; link = &(*link)->next_direct) {
    const Span& span = **link;
    if (span.bytes < least || reinterpret_cast<uintptr_t>(span.base) % kHugePageSize != 0) continue;
    if (best == nullptr || (span.bytes > (*best)->bytes) == largest) best = link;
  }
  return best != nullptr ? unlink(best) : nullptr;
}

// What lies behind so many bytes is kept for itself, if it is a huge page or more.
void DirectMappings::cut_off(Span* span, size_t bytes) {
  const size_t rest = span->bytes - bytes;
  char* const start = span->base + bytes;
  if (rest < kHugePageSize || !map_.cover(start, 1, system_)) return;
  LockGuard guard(lock_);
  Span* piece = take_record();
  if (piece == nullptr) return;
  *piece = *span;
  piece->base = start;
  piece->bytes = rest;
  span->bytes = bytes;
  keep(piece);
}

// Returns how many of its bytes now have memory. An end that is less than a huge page takes the end
// of another one over: 511 faults on small pages cost several times what a huge page costs. But
// only as a whole. Else it would be two mappings to the kernel, which may refuse to move both at
// once.
size_t DirectMappings::fill_from_kept(Span* span) {
  size_t filled = 0;
  Span* end = nullptr;
  const size_t whole = align_down(span->bytes, kHugePageSize);
  while (filled < whole) {
    Span* piece = take_piece(kHugePageSize, true);
    if (piece == nullptr) break;
    const size_t wanted = std::min(align_down(piece->bytes, kHugePageSize), whole - filled);
    const size_t moved = system_.move(piece->base, wanted, span->base + filled);
    note_gap(piece->freed, moved);
    filled += moved;
    piece->base += moved;
    piece->bytes -= moved;
    if (piece->bytes >= kHugePageSize && map_.cover(piece->base, 1, system_)) {
      LockGuard guard(lock_);
      keep(piece);
    } else {
      if (end == nullptr || end->bytes < piece->bytes) std::swap(end, piece);
      if (piece != nullptr) unmap(piece);
    }
    if (moved < wanted) break;
  }
  if (end == nullptr) return filled;
  const size_t wanted = span->bytes - whole;
  if (filled == whole && end->bytes >= wanted) {
    const size_t moved = system_.move(end->base, wanted, span->base + whole);
    filled += moved;
    end->base += moved;
    end->bytes -= moved;
  }
  unmap(end);
  return filled;
}

}  // namespace llamalloc
