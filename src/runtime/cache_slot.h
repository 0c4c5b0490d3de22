// SPDX-License-Identifier: Apache-2.0
// Where a thread finds its cache, and the marks that say whether it uses it at this moment.
//
//   the owner, in each call               the worker (runtime/idle_caches.h)
//   in_call = 1           store           cache = &empty_cache
//   c = cache             load            barrier on all threads
//   ... uses c ...                        in_call, depth   clear: the owner holds no c,
//   in_call = 0           store                            and will find the empty cache
//
// The owner needs no barrier and no test: the worker's barrier orders the owner's store before its
// load, and the empty cache fails every fast path, as it does for a thread that has none yet. The
// slow path, which comes then, asks for the cache's custody (own_cache).
//
// in_call is for the fast paths: two plain stores. Slow paths count `depth`, so that a signal
// handler which interrupts one, and allocates, leaves the mark as it found it. (A handler that
// interrupts a fast path must not allocate: it would find the magazine half changed, here as in
// other allocators.) A handler that leaves a fast path by siglongjmp leaves in_call set: the cache
// counts as used until the thread's next call. A child that shares the memory and the thread-local
// variables of its parent (vfork, clone(CLONE_VM)) marks the same slot; that is right, as it uses
// the same cache.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/thread_cache.h"

namespace llamalloc {

// Every thread's cache before its first slow path, after its last exit handler, and when the worker
// has its own.
extern constinit ThreadCache empty_cache;

struct alignas(16) CacheSlot {
  std::atomic<ThreadCache*> cache{&empty_cache};
  std::atomic<uint32_t> in_call{0};  // 0 or 1; a byte costs 0.9 ns a call more on Zen
  std::atomic<uint32_t> depth{0};

  // A fast path begins: the cache, until end_call or a slow path ends.
  [[gnu::always_inline]] ThreadCache* begin_call() {
    in_call.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with the worker's barrier
    return cache.load(std::memory_order_relaxed);
  }
  // Release pairs with the acquire in is_used: the worker sees the magazines as they are left.
  [[gnu::always_inline]] void end_call() { in_call.store(0, std::memory_order_release); }
  // By the worker, after its barrier.
  bool is_used() const {
    return in_call.load(std::memory_order_acquire) != 0 ||
           depth.load(std::memory_order_acquire) != 0;
  }
};

extern constinit thread_local CacheSlot cache_slot __attribute__((tls_model("initial-exec")));
// The cache that the thread has adopted, also while its slot holds the empty one; or null. For all
// but its magazines.
extern constinit thread_local ThreadCache* adopted_cache __attribute__((tls_model("initial-exec")));

// A slow path of this thread. It may begin as the last thing of a fast path, whose mark it clears.
class SlowPath {
 public:
  SlowPath() {
    set_depth(cache_slot.depth.load(std::memory_order_relaxed) + 1);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as in begin_call
  }
  ~SlowPath() {
    set_depth(cache_slot.depth.load(std::memory_order_relaxed) - 1);
    cache_slot.end_call();
  }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;

 private:
  static void set_depth(uint32_t depth) {
    cache_slot.depth.store(depth, std::memory_order_release);
  }
};

}  // namespace llamalloc
