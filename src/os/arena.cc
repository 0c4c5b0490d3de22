// SPDX-License-Identifier: Apache-2.0
#include "os/arena.h"

#include "base/check.h"
#include "base/units.h"

namespace llamalloc {

void* MetadataArena::allocate(size_t bytes, size_t alignment) {
  DCHECK(is_power_of_two(alignment) && alignment <= kSmallPage);
  LockGuard guard(lock_);
  void* start = bytes < kChunk / 4 ? allocate_locked(bytes, alignment) : map_whole(bytes);
  if (start != nullptr) used_.fetch_add(bytes, std::memory_order_relaxed);
  return start;
}

void* MetadataArena::map_whole(size_t bytes) {
  bytes = align_up(bytes, kSmallPage);
  char* start = static_cast<char*>(pages_.map(bytes, kSmallPage));
  if (start == nullptr) return nullptr;
  pages_.advise_huge(start, bytes, false);  // owners touch what they need
  if (remember(start, bytes)) return start;
  pages_.unmap(start, bytes);
  return nullptr;
}

void* MetadataArena::allocate_locked(size_t bytes, size_t alignment) {
  char* start = reinterpret_cast<char*>(align_up(reinterpret_cast<size_t>(cursor_), alignment));
  if (cursor_ == nullptr || start + bytes > limit_) {
    start = static_cast<char*>(pages_.map(kChunk, kSmallPage));
    if (start == nullptr) return nullptr;
    pages_.advise_huge(start, kChunk, false);
    cursor_ = start;
    limit_ = start + kChunk;
    remember(start, kChunk);
    start = reinterpret_cast<char*>(align_up(reinterpret_cast<size_t>(cursor_), alignment));
  }
  cursor_ = start + bytes;
  return start;
}

bool MetadataArena::remember(char* start, size_t bytes) {
  auto* mapping = static_cast<Mapping*>(allocate_locked(sizeof(Mapping), alignof(Mapping)));
  if (mapping == nullptr) return false;
  *mapping = {mappings_, start, bytes};
  mappings_ = mapping;
  return true;
}

size_t MetadataArena::resident_bytes() {
  const Mapping* newest;
  {
    LockGuard guard(lock_);
    newest = mappings_;
  }
  size_t bytes = 0;
  for (const Mapping* m = newest; m != nullptr; m = m->next)
    bytes += pages_.resident(m->start, m->bytes);
  return bytes;
}

}  // namespace llamalloc
