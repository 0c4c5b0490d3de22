// SPDX-License-Identifier: Apache-2.0
// Where a thread finds its cache, and the marks that say whether it uses it at this moment.
//
//   the owner, in each call               the worker (engine/idle_caches.h)
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

#include "engine/thread_cache.h"

namespace llamalloc {

struct alignas(16) CacheSlot {
  // The empty cache, of which there is one, before the thread's first slow path, after its last
  // exit handler, and when the worker has its own.
  constexpr explicit CacheSlot(ThreadCache* empty) : cache(empty) {}

  std::atomic<ThreadCache*> cache;
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
  // The same for a slow path; it may be inside another.
  void begin_slow_path() {
    depth.store(depth.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as in begin_call
  }
  // Ends the call, too, of which the slow path was the last part.
  void end_slow_path() {
    depth.store(depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    end_call();
  }
  // By the worker, after its barrier.
  bool is_used() const {
    return in_call.load(std::memory_order_acquire) != 0 ||
           depth.load(std::memory_order_acquire) != 0;
  }
};

}  // namespace llamalloc
