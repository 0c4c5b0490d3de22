// SPDX-License-Identifier: Apache-2.0
#include "engine/idle_caches.h"

#include <algorithm>

#include "engine/engine.h"

namespace llamalloc {
namespace {

constexpr size_t kClaimsARound = 64;
constexpr Nanos kTimeToAnswer = Nanos::millis(1);
// Each claim in vain doubles the time to the next, up to so many times.
constexpr uint8_t kMostVainClaims = 6;

}  // namespace

void Engine::flush_and_return(ThreadCache* cache) {
  flush_cache(cache);
  cache->magazines.bypasses = 0;
  cache->magazines.most_log2 = kMagazineLog2Max;
  counters.add(Stat::sleepers_emptied);
  if (!threads.end_claim(cache, Custody::emptied)) threads.retire(cache, heap);
}

void Engine::leave_to_its_thread(ThreadCache* cache, Nanos now) {
  counters.add(Stat::sleepers_busy);
  const int64_t delay = static_cast<int64_t>(options.sleeper_delay);
  cache->next_claim = now + Nanos{delay << cache->vain_claims};
  if (cache->vain_claims < kMostVainClaims) ++cache->vain_claims;
}

bool Engine::may_claim() const {
  return options.release_sleepers && was_large() && world.may_issue_barrier();
}

// Whether a barrier may be issued. The first one has to be prepared, which takes the system 20 ms;
// a filter that the program installs meanwhile may kill it for the barrier.
[[gnu::cold]] bool Engine::prepare_claims() {
  if (!may_claim()) return false;
  if (is_prepared_) return true;
  world.prepare_barrier();
  is_prepared_ = true;
  return may_claim();
}

// Of threads that were asked up to `before`. Returns how many were claimed.
[[gnu::cold]] size_t Engine::empty_idle_caches_since(Nanos before, Nanos now, bool penalty,
                                                     bool* more) {
  ThreadCache* claimed[kClaimsARound];
  const size_t count = threads.claim_idle(world, before, now, claimed, kClaimsARound, more);
  if (count == 0) return 0;
  const bool fenced = prepare_claims() && world.issue_barrier();
  // All at once, before any is emptied: meanwhile threads may vanish.
  ThreadCache** const end = std::partition(claimed, claimed + count, [&](ThreadCache* cache) {
    return threads.confirm_claim(world, cache, fenced);
  });
  std::for_each(claimed, end, [&](ThreadCache* cache) { flush_and_return(cache); });
  if (penalty)
    std::for_each(end, claimed + count, [&](ThreadCache* each) { leave_to_its_thread(each, now); });
  *more |= end != claimed + count;
  return count;
}

// True: threads that may be idle are left.
bool Engine::empty_idle_caches(Nanos now) {
  if (!may_claim()) return false;
  const Nanos delay{static_cast<int64_t>(options.sleeper_delay)};
  if (delay < kHousekeeping) threads.request_housekeeping(now);
  bool more = false;
  empty_idle_caches_since(now - delay, now, true, &more);
  return more;
}

// The worker was called: threads that run answer meanwhile, the caches of all others are emptied.
// Returns when it is to come again; 0: it was not called, or its time has come anyway. It may have
// had work of its own since it last read the clock.
[[gnu::cold]] Nanos Engine::answer_call() {
  const Nanos asked{asked_at_.load(std::memory_order_acquire)};
  if (asked.n == 0) return {};
  const Nanos now = system.now();
  if (now - asked < kTimeToAnswer && now >= asked) return kTimeToAnswer;
  asked_at_.store(0, std::memory_order_relaxed);
  const Heap::Filling filling = heap.filling();
  size_t rounds = may_claim() ? threads.in_use() / kClaimsARound + 1 : 0;
  bool more = false;
  while (rounds-- != 0 && empty_idle_caches_since(now, now, false, &more) == kClaimsARound) {
  }
  if (heap.has_made_room(filling)) heap.forget_vain_tries();
  const bool was_woken = last_sleep_ > kShortSleep && !is_dozing();  // for a whole step
  return was_woken || now >= next_step_ ? Nanos{} : std::min(next_step_ - now, last_sleep_);
}

}  // namespace llamalloc
