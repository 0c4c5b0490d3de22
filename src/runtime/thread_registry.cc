// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_registry.h"

namespace llamalloc {

constinit ThreadCache empty_cache{};
constinit thread_local ThreadCache* current_cache __attribute__((tls_model("initial-exec"))) =
    &empty_cache;

ThreadCache* ThreadRegistry::adopt(MetadataArena& arena) {
  LockGuard guard(lock_);
  ThreadCache* cache = all_;
  while (cache != nullptr && cache->in_use) cache = cache->next;
  if (cache == nullptr) {
    cache = arena.make<ThreadCache>();
    if (cache == nullptr) return nullptr;
    cache->magazines.initialise();
    cache->next = all_;
    all_ = cache;
  }
  cache->in_use = true;
  in_use_.fetch_add(1, std::memory_order_relaxed);
  return cache;
}

void ThreadRegistry::retire(ThreadCache* cache, Heap& owner) {
  cache->magazines.flush(owner);
  cache->magazines.reset();
  LockGuard guard(lock_);
  cache->in_use = false;
  in_use_.fetch_sub(1, std::memory_order_relaxed);
}

namespace {

// One call at a time: a thread that sleeps for long must not have them add up until they overflow.
void call_in(ThreadCache* cache) {
  if (cache->countdown.load(std::memory_order_relaxed) >= 0)
    cache->countdown.fetch_sub(kCallIn, std::memory_order_relaxed);
}

}  // namespace

void ThreadRegistry::request_housekeeping() {
  LockGuard guard(lock_);
  for (ThreadCache* cache = all_; cache != nullptr; cache = cache->next) {
    if (!cache->in_use) continue;
    cache->housekeeping_due.store(true, std::memory_order_relaxed);
    call_in(cache);
  }
}

void ThreadRegistry::wake_all() {
  LockGuard guard(lock_);
  for (ThreadCache* cache = all_; cache != nullptr; cache = cache->next)
    if (cache->in_use) call_in(cache);
}

void ThreadRegistry::forget_others(ThreadCache* mine) {
  lock_.reset();
  all_ = mine;
  if (mine != nullptr) mine->next = nullptr;
  in_use_.store(mine != nullptr ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace llamalloc
