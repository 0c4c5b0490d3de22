// SPDX-License-Identifier: Apache-2.0
#include "runtime/sleepers.h"

#include <limits.h>
#include <pthread.h>

#include <algorithm>

#include "os/sleeper.h"
#include "os/system_facts.h"
#include "runtime/allocator.h"
#include "runtime/background.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constexpr size_t kLooks = 64;  // threads a round
constexpr size_t kLookerStack = 128 << 10;

// What one round looks at; guarded by the worker's lock, and the looker's while it lives.
struct Round {
  ThreadRegistry::Idle idle[kLooks];
  bool taken[kLooks];
  size_t count;
};
constinit Round round{};

// True: its magazines are the worker's.
bool take(const ThreadRegistry::Idle& idle) {
  SleeperLook look(idle.thread_id, idle.stack_end);
  if (!look.seems_asleep() || !process.threads.offer(idle)) return false;
  if (!look.is_asleep() || idle.cache->busy) {
    process.counters.add(Stat::sleepers_unproven);
    return false;
  }
  Custody expected = Custody::offered;
  // Acquire: what the thread wrote before it blocked came here by the kernel (SleeperLook).
  const bool mine = idle.cache->custody.compare_exchange_strong(expected, Custody::taken,
                                                                std::memory_order_acq_rel);
  process.counters.add(mine ? Stat::sleepers_emptied : Stat::sleepers_woke);
  return mine;
}

void* look_at_all(void*) {
  if (!leave_descriptors()) return nullptr;
  for (size_t i = 0; i < round.count; ++i) round.taken[i] = take(round.idle[i]);
  return nullptr;
}

void look_in_thread_of_its_own() {
  std::fill_n(round.taken, round.count, false);
  pthread_t looker;
  if (start_thread(look_at_all, kLookerStack, &looker)) pthread_join(looker, nullptr);
}

void give_back(ThreadCache* cache) {
  flush_cache(cache);
  Custody expected = Custody::taken;
  // Release pairs with the acquire in take_back: the thread sees the empty magazines.
  if (cache->custody.compare_exchange_strong(expected, Custody::emptied, std::memory_order_acq_rel))
    return;
  cache->custody.store(Custody::own, std::memory_order_relaxed);
  process.threads.retire(cache, process.heap);
}

void look_later(ThreadCache* cache, Nanos now) {
  const int64_t delay = static_cast<int64_t>(process.options.sleeper_delay);
  cache->next_look = now + Nanos{delay << cache->looks};
  if (cache->looks < kMostLooks) ++cache->looks;
}

bool may_look() {
  const Options& options = process.options;
  return options.release_sleepers && process.heap.pages_in_use() >= kFewPages &&
         !has_raised_privileges() &&
         (options.sleepers_despite_seccomp || !system_calls_are_filtered());
}

}  // namespace

bool empty_sleeping_caches(Nanos now) {
  if (!may_look()) return false;
  const Nanos delay{static_cast<int64_t>(process.options.sleeper_delay)};
  if (delay < kHousekeeping) process.threads.request_housekeeping(now);
  bool more = false;
  round.count = process.threads.find_idle(now - delay, now, round.idle, kLooks, &more);
  if (round.count == 0) return more;
  look_in_thread_of_its_own();
  for (size_t i = 0; i < round.count; ++i) {
    ThreadCache* cache = round.idle[i].cache;
    if (round.taken[i])
      give_back(cache);
    else
      look_later(cache, now);
    more |= !round.taken[i];
  }
  return more;
}

}  // namespace llamalloc
