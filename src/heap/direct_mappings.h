// SPDX-License-Identifier: Apache-2.0
// Objects above 1 MiB: each a mapping of its own.
//
//   allocate --> in use --> freed and kept, newest first --> unmapped
//                              |
//                              +--> serves the next request of about its size
//
// The newest freed one is always kept, older ones only as far as they are little beside what is in
// use; the worker unmaps what lies there for a while. One lock, taken once for an allocation and
// once for a free, and never held over a system call.
#pragma once

#include <atomic>
#include <cstddef>

#include "heap/page_pool.h"
#include "heap/span.h"
#include "heap/span_map.h"
#include "os/arena.h"
#include "os/lock.h"

namespace llamalloc {

inline constexpr size_t kKeptMappingMax = size_t{128} << 20;  // bytes; larger ones go at once
inline constexpr int kKeptMappings = 16;

class DirectMappings {
 public:
  constexpr DirectMappings(PageSource& system, MetadataArena& arena, SpanMap& map, PagePool& pool)
      : system_(system), arena_(arena), map_(map), pool_(pool) {}

  // alignment: a power of two; null: no memory.
  Span* allocate(size_t bytes, size_t alignment, bool sampled);
  // Its address is in the map no more when this begins.
  void deallocate(Span* span);
  // The object's address, which may be another one; null: not possible, nothing changed.
  void* resize(Span* span, size_t bytes);
  // Unmaps what was freed up to `before`; how many.
  size_t release(Nanos before);

  // Hints, read without the lock; kept: what is freed and has memory behind it.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t count() const { return count_.load(std::memory_order_relaxed); }
  size_t kept_bytes() const { return kept_bytes_.load(std::memory_order_relaxed); }
  Lock& lock() { return lock_; }
  bool is_consistent();

 private:
  Span* reuse(size_t bytes, size_t alignment);
  Span* make(size_t bytes, size_t alignment);
  void* map(size_t bytes, size_t alignment);
  Span* new_record(size_t bytes);
  void free_record(Span* span);
  void keep(Span* span);
  Span* take_oldest(Nanos before);
  void unmap(Span* span);
  // The caller of these holds the lock, so that no read-modify-write is needed.
  static void add(std::atomic<size_t>& counter, size_t change) {
    counter.store(counter.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  void count_in(size_t bytes) { add(bytes_, bytes), add(count_, 1); }
  void count_out(size_t bytes) { add(bytes_, size_t{0} - bytes), add(count_, size_t{0} - 1); }

  PageSource& system_;
  MetadataArena& arena_;
  SpanMap& map_;
  PagePool& pool_;
  Lock lock_;
  // Guarded by lock_; each list is linked by next_direct.
  Span* kept_ = nullptr;     // newest first
  Span* refused_ = nullptr;  // freed and empty, but the system would not unmap them
  Span* free_records_ = nullptr;
  int kept_count_ = 0;
  std::atomic<size_t> bytes_{0};  // in use
  std::atomic<size_t> count_{0};
  std::atomic<size_t> kept_bytes_{0};
};

}  // namespace llamalloc
