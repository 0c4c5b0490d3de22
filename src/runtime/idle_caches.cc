// SPDX-License-Identifier: Apache-2.0
#include "runtime/idle_caches.h"

#include "os/system_facts.h"
#include "os/thread_barrier.h"
#include "runtime/allocator.h"
#include "runtime/background.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constexpr size_t kClaims = 64;  // caches a round

constinit SystemCallFilter filter_at_start{};
constinit std::atomic<bool> barrier_is_missing{false};
constinit std::atomic<bool> program_filters{false};

void flush_and_return(ThreadCache* cache) {
  flush_cache(cache);
  process.counters.add(Stat::sleepers_emptied);
  if (!process.threads.end_claim(cache, Custody::emptied))
    process.threads.retire(cache, process.heap);
}

void leave_to_its_thread(ThreadCache* cache, Nanos now) {
  process.counters.add(Stat::sleepers_busy);
  const int64_t delay = static_cast<int64_t>(process.options.sleeper_delay);
  cache->next_claim = now + Nanos{delay << cache->vain_claims};
  if (cache->vain_claims < kMostVainClaims) ++cache->vain_claims;
}

bool filtered_by_program() {
  if (process.options.sleepers_despite_seccomp) return false;
  const bool filtered = system_call_filter().is_newer_than(filter_at_start);
  program_filters.store(filtered, std::memory_order_relaxed);
  return filtered;
}

bool may_claim() {
  return process.options.release_sleepers && process.heap.pages_in_use() >= kFewPages &&
         !barrier_is_missing && !filtered_by_program();
}

}  // namespace

void prepare_idle_caches() {
  filter_at_start = system_call_filter();
  if (process.options.release_sleepers) barrier_is_missing = !has_thread_barrier();
}

bool empty_idle_caches(Nanos now) {
  if (!may_claim()) return false;
  const Nanos delay{static_cast<int64_t>(process.options.sleeper_delay)};
  if (delay < kHousekeeping) process.threads.request_housekeeping(now);
  ThreadCache* claimed[kClaims];
  bool more = false;
  const size_t count = process.threads.claim_idle(now - delay, now, claimed, kClaims, &more);
  if (count == 0) return more;
  barrier_is_missing = !issue_thread_barrier();
  for (size_t i = 0; i < count; ++i) {
    if (process.threads.confirm_claim(claimed[i], !barrier_is_missing)) {
      flush_and_return(claimed[i]);
    } else {
      leave_to_its_thread(claimed[i], now);
      more = true;
    }
  }
  return more;
}

const char* idle_caches_state() {
  if (!process.options.release_sleepers) return "off: release_sleepers:off";
  if (barrier_is_missing) return "off: membarrier is missing or not allowed";
  if (program_filters.load(std::memory_order_relaxed))
    return "off: the program installed a seccomp filter; if it allows membarrier, set "
           "sleepers_despite_seccomp:on";
  return "on";
}

}  // namespace llamalloc
