// SPDX-License-Identifier: Apache-2.0
// For tests: the magazines of one thread, on a heap that the test provides.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>

#include "heap/magazines.h"

namespace llamalloc {

// Does what the fast paths of allocator.h do.
class TestThread {
 public:
  TestThread(Heap& heap, MetadataArena& arena, size_t threads = 1)
      : heap_(heap), arena_(arena), threads_(threads), cache_(std::make_unique<Magazines>()) {
    cache_->initialise();
  }
  char* allocate(int bin) {
    if (const auto now = std::this_thread::get_id(); now != thread_) cache_->begin(), thread_ = now;
    Magazine& m = cache_->bins[bin];
    return static_cast<char*>(m.is_empty() ? cache_->refill(heap_, arena_, bin, threads_)
                                           : m.pop());
  }
  // Returns a slot that was found to be freed twice, or null.
  void* deallocate(char* p) {
    const int bin = heap_.find(p)->local_bin();
    Magazine& m = cache_->bins[bin];
    if (m.is_full()) return cache_->spill(heap_, arena_, bin, p, threads_);
    m.push(p);
    return nullptr;
  }
  void* flush() { return cache_->flush(heap_); }
  Magazines& cache() { return *cache_; }
  size_t cached_bytes() const { return cache_->cached_bytes(); }

 private:
  Heap& heap_;
  MetadataArena& arena_;
  size_t threads_;
  std::unique_ptr<Magazines> cache_;
  std::thread::id thread_;  // that allocated last
};

}  // namespace llamalloc
