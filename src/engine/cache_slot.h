// SPDX-License-Identifier: Apache-2.0
// Where a thread finds its cache, and the marks that say whether it is using the cache now.
//
//   the owner, in each call               the worker (engine/idle_caches.h)
//   in_call = 1           store           cache = &empty_cache
//   c = cache             load            barrier on all threads
//   ... uses c ...                        in_call, depth   clear: the owner holds no c,
//   in_call = 0           store                            and will find the empty cache
//
// The owner needs no barrier and no test: the worker's barrier orders the owner's store before its
// load. The empty cache fails every fast path; new threads start with it too. The slow path that
// follows checks the custody of the thread's own cache (own_cache).
//
// Fast paths set in_call, with two plain stores. Slow paths count `depth`: if a signal handler
// interrupts a slow path and allocates, the count is the same afterwards. (A handler that
// interrupts a fast path must not allocate: it would find the magazine half changed, here as in
// other allocators.) If a handler leaves a fast path by siglongjmp, in_call stays set, and the
// cache counts as used until the thread's next call. A child that shares the memory and the
// thread-local variables of its parent (vfork, clone(CLONE_VM)) marks the same slot. That is
// right, since it uses the same cache.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/thread_cache.h"

namespace llamalloc {

struct alignas(16) CacheSlot {
  // The slot holds the shared empty cache before the thread's first slow path, after its last exit
  // handler, and while the worker has the thread's own cache.
  constexpr explicit CacheSlot(ThreadCache* empty) : cache(empty) {}

  std::atomic<ThreadCache*> cache;
  std::atomic<uint32_t> in_call{0};  // 0 or 1; a byte costs 0.9 ns a call more on Zen
  std::atomic<uint32_t> depth{0};

  // Begins a fast path. The result may be used until end_call() or the end of a slow path.
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
  // Also ends the call that began with a fast path and went on to this slow path.
  void end_slow_path() {
    depth.store(depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    end_call();
  }
  // Called by the worker, after its barrier.
  bool is_used() const {
    return in_call.load(std::memory_order_acquire) != 0 ||
           depth.load(std::memory_order_acquire) != 0;
  }
};

}  // namespace llamalloc
