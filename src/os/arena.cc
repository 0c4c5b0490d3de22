// SPDX-License-Identifier: Apache-2.0
#include "os/arena.h"

#include "base/check.h"
#include "base/units.h"

namespace llamalloc {

void* MetadataArena::allocate(size_t bytes, size_t alignment) {
  DCHECK(is_power_of_two(alignment) && alignment <= 4096);
  LockGuard guard(lock_);
  used_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes >= kChunk / 4) return pages_.map(align_up(bytes, 4096), 4096);
  char* start = reinterpret_cast<char*>(align_up(reinterpret_cast<size_t>(cursor_), alignment));
  if (cursor_ == nullptr || start + bytes > limit_) {
    start = static_cast<char*>(pages_.map(kChunk, 4096));
    if (start == nullptr) return nullptr;
    pages_.advise_huge(start, kChunk, false);
    limit_ = start + kChunk;
  }
  cursor_ = start + bytes;
  return start;
}

}  // namespace llamalloc
