// SPDX-License-Identifier: Apache-2.0
#include "engine/idle_caches.h"

#include <algorithm>

#include "engine/engine.h"

namespace llamalloc {
namespace {

constexpr size_t kClaimsARound = 64;
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

// The first barrier of a process takes the system 20 ms: not when it is urgent.
void Engine::prepare_claims() {
  if (is_prepared_ || !may_claim()) return;
  world.issue_barrier();
  is_prepared_ = true;
}

// True: threads that may be idle are left.
bool Engine::empty_idle_caches(Nanos now) {
  const bool at_once = empties_at_once_.exchange(false, std::memory_order_acquire);
  if (!may_claim()) return false;
  if (at_once) now = system.now();  // not before they were asked
  const Nanos delay{at_once ? 0 : static_cast<int64_t>(options.sleeper_delay)};
  if (!at_once && delay < kHousekeeping) threads.request_housekeeping(now);
  ThreadCache* claimed[kClaimsARound];
  bool more = false;
  const size_t count = threads.claim_idle(world, now - delay, now, claimed, kClaimsARound, &more);
  if (count == 0) return more;
  const bool fenced = world.issue_barrier();
  // All at once, before any is emptied: meanwhile threads may vanish.
  ThreadCache** const end = std::partition(claimed, claimed + count, [&](ThreadCache* cache) {
    return threads.confirm_claim(world, cache, fenced);
  });
  const Heap::Filling filling = heap.filling();
  std::for_each(claimed, end, [&](ThreadCache* cache) { flush_and_return(cache); });
  if (at_once && heap.has_made_room(filling)) heap.note_room_made();
  std::for_each(end, claimed + count, [&](ThreadCache* cache) { leave_to_its_thread(cache, now); });
  return more || end != claimed + count;
}

}  // namespace llamalloc
