// SPDX-License-Identifier: Apache-2.0
// The countdown of a thread, in bytes: one test on the fast path for samples, rechecks and calls
// from others.
#include <algorithm>

#include "engine/engine.h"
#include "profile/sampler.h"

namespace llamalloc {
namespace {

// While the thread takes slots past its cache, each allocation comes here.
void set_countdown(ThreadCache* cache) {
  const int64_t next = cache->magazines.bypasses != 0
                           ? 0
                           : std::min(cache->bytes_to_sample, cache->bytes_to_recheck);
  cache->countdown_start = next;
  cache->countdown.store(next, std::memory_order_relaxed);
}

}  // namespace

int64_t Engine::interval_or_never(ThreadCache* cache, bool on, uint64_t mean) {
  if (!on) return kCallIn / 4;  // never, yet a call brings it below zero
  // Less one: it is due when below zero, not at it.
  return next_interval(cache->rng, static_cast<double>(mean)) - 1;
}

Counting Engine::counts_now() const {
  if (profiler.on()) return Counting::samples;
  return sample_from_.load(std::memory_order_relaxed) != 0 ? Counting::growth : Counting::nothing;
}

int64_t Engine::bytes_to_count(ThreadCache* cache) {
  if (cache->counting == Counting::growth) return kLookAtGrowth;
  return interval_or_never(cache, cache->counting == Counting::samples, profiler.interval());
}

void Engine::start_sampling(uint64_t interval, Nanos now) {
  profiler.start(interval, now);
  threads.wake_all();
}

void Engine::start_placing(bool on) {
  placement_on.store(on, std::memory_order_relaxed);
  predictions_on.store(on, std::memory_order_release);
  threads.wake_all();
}

void Engine::sample_from(size_t held, uint64_t interval) {
  interval_then_.store(interval, std::memory_order_relaxed);
  if (sample_from_.exchange(held, std::memory_order_relaxed) != held) threads.wake_all();
}

// One thread begins, for all. The worker has learning to do then.
void Engine::look_at_growth() {
  size_t least = sample_from_.load(std::memory_order_relaxed);
  if (least == 0 || heap.held_bytes() < least) return;
  if (!sample_from_.compare_exchange_strong(least, 0, std::memory_order_relaxed)) return;
  start_sampling(interval_then_.load(std::memory_order_relaxed), system.now());
  world.want_worker();
}

void Engine::start_countdown(ThreadCache* cache) {
  const bool predicting = predictions_on.load(std::memory_order_acquire);
  cache->predicting = predicting;
  cache->counting = counts_now();
  cache->bytes_to_sample = bytes_to_count(cache);
  cache->bytes_to_recheck = interval_or_never(cache, predicting, options.predict_recheck);
  set_countdown(cache);
}

// Runs when the countdown fell below zero: somebody called, or an interval is over.
Engine::Due Engine::tick(ThreadCache* cache) {
  Due due;
  if (cache->unannounced != nullptr) announce(cache);
  int64_t left = cache->countdown.load(std::memory_order_relaxed);
  while (left < -(kCallIn / 2)) left += kCallIn;
  const int64_t consumed = cache->countdown_start - left;
  cache->bytes_to_sample -= consumed;
  cache->bytes_to_recheck -= consumed;
  if (cache->housekeeping_due.load(std::memory_order_relaxed) &&
      cache->housekeeping_due.exchange(false, std::memory_order_relaxed)) {
    flush_cache(cache);
    cache->magazines.start_over(bypasses_.load(std::memory_order_relaxed),
                                small_caches_.load(std::memory_order_relaxed));
    cache->magazines.begin();
  }
  if (cache->magazines.bypasses != 0) due.apart = Due::Apart::past;
  if (cache->counting == Counting::growth && cache->bytes_to_sample < 0) look_at_growth();
  if (cache->counting != counts_now() ||
      cache->predicting != predictions_on.load(std::memory_order_acquire)) {
    start_countdown(cache);
    return due;
  }
  if (cache->bytes_to_sample < 0) {
    if (cache->counting == Counting::samples) due.apart = Due::Apart::sample;
    cache->bytes_to_sample = bytes_to_count(cache);
  }
  if (cache->bytes_to_recheck < 0) {
    due.recheck = true;
    cache->bytes_to_recheck = interval_or_never(cache, true, options.predict_recheck);
  }
  set_countdown(cache);
  return due;
}

Engine::Due Engine::count(ThreadCache* cache, const Request& request) {
  if (__builtin_expect(cache == nullptr || cache->busy, 0)) return {};
  const bool counts = !request.counted && request.size < (size_t{1} << 50);
  const int64_t left = cache->countdown.load(std::memory_order_relaxed) -
                       (counts ? static_cast<int64_t>(request.size) : 0);
  cache->countdown.store(left, std::memory_order_relaxed);
  return left < 0 ? tick(cache) : Due{};
}

}  // namespace llamalloc
