// SPDX-License-Identifier: Apache-2.0
#include "engine/thread_registry.h"

#include <algorithm>

#include "base/check.h"

namespace llamalloc {

ThreadCache* ThreadRegistry::adopt(MetadataArena& arena) {
  LockGuard guard(lock_);
  ThreadCache* cache = free_;
  if (cache != nullptr) {
    free_ = cache->next_free;
  } else {
    cache = arena.make_array<ThreadCache>(1);  // zeroes, untouched: most of it never is
    if (cache == nullptr) return nullptr;
    cache->magazines.initialise();
    cache->next = all_;
    all_ = cache;
  }
  cache->magazines.begin();
  cache->in_use = true;
  in_use_.fetch_add(1, std::memory_order_relaxed);
  return cache;
}

void ThreadRegistry::retire(ThreadCache* cache, Heap& owner) {
  cache->magazines.flush(owner);
  cache->magazines.start_over();
  cache->magazines.budget = std::min(cache->magazines.budget, kBusyBudget);
  LockGuard guard(lock_);
  DCHECK(cache->in_use);
  cache->housekeeping_due.store(false, std::memory_order_relaxed);
  cache->in_use = false;
  cache->next_free = free_;
  free_ = cache;
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
      cache->vain_claims = 0;
      cache->next_claim = {};
    }
    call_in(cache);
  }
}

namespace {

bool waits_for_its_thread(const ThreadCache* cache) {
  return cache->in_use && cache->slot != nullptr &&
         cache->custody.load(std::memory_order_relaxed) == Custody::own &&
         cache->housekeeping_due.load(std::memory_order_relaxed);
}

// Custody first: who finds the empty cache finds that its own is claimed (take_back).
void claim(ThreadCache* cache, ThreadCache* empty) {
  cache->custody.store(Custody::claimed, std::memory_order_relaxed);
  cache->slot->cache.store(empty, std::memory_order_release);
}

// The marks before the slot: what the owner did before it cleared them is then seen.
bool is_left(const CacheSlot& slot, const ThreadCache* empty) {
  return !slot.is_used() && slot.cache.load(std::memory_order_relaxed) == empty;
}

}  // namespace

void ThreadRegistry::open_slot(ThreadCache* cache, CacheSlot* slot) {
  LockGuard guard(lock_);
  cache->slot = slot;
}

bool ThreadRegistry::close_slot(ThreadCache* cache) {
  LockGuard guard(lock_);
  cache->slot = nullptr;
  cache->abandoned = cache->custody.load(std::memory_order_relaxed) == Custody::claimed;
  if (cache->abandoned) return false;
  cache->custody.store(Custody::own, std::memory_order_relaxed);
  return true;
}

size_t ThreadRegistry::claim_idle(World& world, Nanos before, Nanos now, ThreadCache** out,
                                  size_t room, bool* more) {
  LockGuard guard(lock_);
  size_t n = 0;
  *more = false;
  ThreadCache* cache = next_idle_ ? next_idle_ : all_;
  ThreadCache* const first = cache;
  while (cache != nullptr && n < room) {
    const bool waits = waits_for_its_thread(cache);
    if (!waits || cache->asked > before || cache->next_claim > now)
      *more |= waits;
    else if (world.thread_exists(cache->thread_id))
      claim(out[n++] = cache, &empty_);
    else
      cache->slot = nullptr;
    cache = cache->next ? cache->next : all_;
    if (cache == first) break;
  }
  *more |= n == room;
  next_idle_ = cache;
  return n;
}

bool ThreadRegistry::confirm_claim(World& world, ThreadCache* cache, bool fenced) {
  LockGuard guard(lock_);
  if (cache->abandoned) return true;
  if (!world.thread_exists(cache->thread_id))
    cache->slot = nullptr;
  else if (fenced && is_left(*cache->slot, &empty_))
    return true;
  cache->custody.store(Custody::own, std::memory_order_relaxed);
  return false;
}

bool ThreadRegistry::take_back(ThreadCache* cache, CacheSlot* slot) {
  Custody now = cache->custody.load(std::memory_order_relaxed);
  // Acquire pairs with the release in end_claim.
  if (now == Custody::claimed ||
      !cache->custody.compare_exchange_strong(now, Custody::own, std::memory_order_acquire))
    return false;
  slot->cache.store(cache, std::memory_order_relaxed);
  return true;
}

bool ThreadRegistry::end_claim(ThreadCache* cache, Custody next) {
  LockGuard guard(lock_);
  const bool goes_on = !cache->abandoned;
  cache->abandoned = false;
  // Release pairs with the acquire in take_back: the thread sees the empty magazines.
  cache->custody.store(goes_on ? next : Custody::own, std::memory_order_release);
  return goes_on;
}

void ThreadRegistry::wake_all() {
  LockGuard guard(lock_);
  for (ThreadCache* cache = all_; cache != nullptr; cache = cache->next)
    if (cache->in_use) call_in(cache);
}

// No other thread is there.
void ThreadRegistry::forget_others(ThreadCache* mine) NO_THREAD_SAFETY_ANALYSIS {
  lock_.reset();
  all_ = mine;
  free_ = next_idle_ = nullptr;
  if (mine != nullptr) {
    mine->next = nullptr;
    mine->magazines.waits = 0;
    // Whoever forks in a handler that interrupted an allocation may be claimed, but not confirmed.
    Custody claimed = Custody::claimed;
    mine->custody.compare_exchange_strong(claimed, Custody::own, std::memory_order_relaxed);
  }
  in_use_.store(mine != nullptr ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace llamalloc
