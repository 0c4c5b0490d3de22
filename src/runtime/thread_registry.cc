// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_registry.h"

namespace llamalloc {

constinit ThreadCache empty_cache{};
constinit thread_local std::atomic<ThreadCache*> current_cache
    __attribute__((tls_model("initial-exec"))) = &empty_cache;
constinit thread_local ThreadCache* adopted_cache __attribute__((tls_model("initial-exec"))) =
    nullptr;

ThreadCache* ThreadRegistry::adopt(MetadataArena& arena) {
  LockGuard guard(lock_);
  ThreadCache* cache = in_use() < made_ ? all_ : nullptr;
  while (cache != nullptr && cache->in_use) cache = cache->next;
  if (cache == nullptr) {
    cache = arena.make_array<ThreadCache>(1);  // zeroes, untouched: most of it never is
    if (cache == nullptr) return nullptr;
    cache->magazines.initialise();
    cache->next = all_;
    all_ = cache;
    ++made_;
  }
  cache->in_use = true;
  in_use_.fetch_add(1, std::memory_order_relaxed);
  return cache;
}

void ThreadRegistry::retire(ThreadCache* cache, Heap& owner) {
  cache->magazines.flush(owner);
  cache->magazines.reset();
  LockGuard guard(lock_);
  cache->housekeeping_due.store(false, std::memory_order_relaxed);
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

void ThreadRegistry::request_housekeeping(Nanos now) {
  LockGuard guard(lock_);
  for (ThreadCache* cache = all_; cache != nullptr; cache = cache->next) {
    if (!cache->in_use) continue;
    if (!cache->housekeeping_due.exchange(true, std::memory_order_relaxed)) {
      cache->asked = now;
      cache->looks = 0;
      cache->next_look = {};
    }
    call_in(cache);
  }
}

namespace {

bool has_something(const ThreadCache* cache) {
  const Custody custody = cache->custody.load(std::memory_order_relaxed);
  return cache->in_use && cache->slot != nullptr &&
         (custody == Custody::own || custody == Custody::offered) &&
         cache->housekeeping_due.load(std::memory_order_relaxed);
}

}  // namespace

size_t ThreadRegistry::find_idle(Nanos before, Nanos now, Idle* out, size_t room, bool* more) {
  LockGuard guard(lock_);
  size_t n = 0;
  *more = false;
  ThreadCache* cache = next_idle_ ? next_idle_ : all_;
  ThreadCache* const first = cache;
  while (cache != nullptr && n < room) {
    const bool waits = has_something(cache);
    if (waits && cache->asked <= before && cache->next_look <= now)
      out[n++] = {cache, cache->thread_id, cache->stack_end};
    else
      *more |= waits;
    cache = cache->next ? cache->next : all_;
    if (cache == first) break;
  }
  *more |= n == room;
  next_idle_ = cache;
  return n;
}

void ThreadRegistry::open_slot(ThreadCache* cache, std::atomic<ThreadCache*>* slot) {
  LockGuard guard(lock_);
  cache->slot = slot;
}

void ThreadRegistry::close_slot(ThreadCache* cache) {
  LockGuard guard(lock_);
  cache->slot = nullptr;
}

bool ThreadRegistry::offer(const Idle& idle) {
  LockGuard guard(lock_);
  ThreadCache* cache = idle.cache;
  if (!cache->in_use || cache->slot == nullptr || cache->thread_id != idle.thread_id) return false;
  if (cache->custody.load(std::memory_order_relaxed) == Custody::offered) return true;
  // Only here does the slot of a live thread lose its cache, so from here on it cannot change.
  if (cache->slot->load(std::memory_order_acquire) != cache) return false;
  cache->custody.store(Custody::offered, std::memory_order_relaxed);
  // Who sees the empty cache sees that its own is offered (take_back).
  cache->slot->store(&empty_cache, std::memory_order_seq_cst);
  return true;
}

void ThreadRegistry::wake_all() {
  LockGuard guard(lock_);
  for (ThreadCache* cache = all_; cache != nullptr; cache = cache->next)
    if (cache->in_use) call_in(cache);
}

void ThreadRegistry::forget_others(ThreadCache* mine) {
  lock_.reset();
  all_ = mine;
  next_idle_ = nullptr;
  if (mine != nullptr) mine->next = nullptr;
  made_ = mine != nullptr ? 1 : 0;
  in_use_.store(made_, std::memory_order_relaxed);
}

}  // namespace llamalloc
