// SPDX-License-Identifier: Apache-2.0
// Memory for our own tables: bump-allocated from its own mappings, zeroed, never freed. Owners keep
// free lists of what they can reuse.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

#include "os/lock.h"
#include "os/pages.h"

namespace llamalloc {

class MetadataArena {
 public:
  constexpr explicit MetadataArena(PageSource& pages) : pages_(pages) {}

  // Zeroed memory, or null if the system has none. alignment: a power of two up to 4096.
  void* allocate(size_t bytes, size_t alignment = 16);

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    void* memory = allocate(sizeof(T), alignof(T));
    return memory ? new (memory) T(std::forward<Args>(args)...) : nullptr;
  }
  template <typename T>
  T* make_array(size_t count) {
    return static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }

  // Bytes handed out, whether they have been touched or not.
  size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  // Resident bytes, as the system reports them: owners of large tables touch only what they need.
  // Takes milliseconds in a large process; others get memory meanwhile.
  size_t resident_bytes();
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }  // for fork

 private:
  static constexpr size_t kChunk = 256 * 1024;
  // Each mapping is remembered by an entry in a chunk. Both stay as they are.
  struct Mapping {
    Mapping* next;
    char* start;
    size_t bytes;
  };

  void* allocate_locked(size_t bytes, size_t alignment) REQUIRES(lock_);
  void* map_whole(size_t bytes) REQUIRES(lock_);
  bool remember(char* start, size_t bytes) REQUIRES(lock_);

  PageSource& pages_;
  Lock lock_{LockRank::arena};
  char* cursor_ GUARDED_BY(lock_) = nullptr;
  char* limit_ GUARDED_BY(lock_) = nullptr;
  Mapping* mappings_ GUARDED_BY(lock_) = nullptr;
  std::atomic<size_t> used_{0};
};

}  // namespace llamalloc
