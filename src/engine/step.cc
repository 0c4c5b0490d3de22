// SPDX-License-Identifier: Apache-2.0
// The work in the background, and its cadence.
#include "engine/engine.h"

namespace llamalloc {
namespace {

constexpr Nanos kDirectDelay = Nanos::millis(100);  // freed direct mappings go back after this
constexpr Nanos kStayAwake = Nanos::seconds(5);

}  // namespace

Nanos Engine::release_delay() const {
  return Nanos{static_cast<int64_t>(Options::current(options.release_delay))};
}

void Engine::collect_caches(Nanos now) {
  threads.request_housekeeping(now);
  if (const void* twice = heap.drain_depots()) report_double_free(twice);
}

void Engine::look_at_outlivers(Nanos now, Nanos since) {
  profiler.for_each_live(now, [&](const Profiler::Live& live) {
    const Nanos bound = row(live.predicted).bound;
    if (live.context_key == 0 || bound.n == 0 || live.age <= bound) return;
    // Again in each longer class, as only another page group matters.
    const Nanos before = live.age - since;
    if (class_of_lifetime(live.age) != class_of_lifetime(before))
      placement.observe(live.context_key, live.predicted, live.age, before > bound);
  });
}

size_t Engine::break_pages(Nanos before) {
  const Breaking done = heap.pages().break_sparse({.before = before});
  if (done.pages != 0) last_break_ = system.now();  // there may be more
  counters.add(Stat::pages_broken, done.pages);
  counters.add(Stat::pages_unbreakable, done.refused);
  counters.add(Stat::pages_mended, done.mended);
  counters.add(Stat::break_nanos, static_cast<uint64_t>(done.break_time.n));
  counters.add(Stat::mend_nanos, static_cast<uint64_t>(done.mend_time.n));
  return done.given_back;
}

// Pages are broken later than empty ones go back: one in pieces is not as easily had again.
void Engine::keep_house(Nanos now) {
  const Nanos since = now - last_house_;
  if (since < kHousekeeping) return;
  last_house_ = now;
  heap.begin_epoch();
  collect_caches(now);
  counters.add(Stat::promotions, heap.pages().promote_expired(now));
  break_pages(now - Nanos{2 * release_delay().n});
  if (placement_on.load(std::memory_order_relaxed)) look_at_outlivers(now, since);
}

void Engine::give_memory_back(Nanos now) {
  heap.pages().collapse_first_pages();
  const Nanos delay = release_delay();
  heap.release(now - delay, Options::current(options.retain) / kHugePageSize);
  heap.direct().release(now - (delay < kDirectDelay ? delay : kDirectDelay));
}

Released Engine::release(size_t keep) {
  const Nanos now = system.now();
  collect_caches(now);
  return {heap.release(now, keep / kHugePageSize) * kHugePageSize,
          heap.direct().release(Nanos::max()), break_pages(now)};
}

// Threads that were asked after a long sleep are idle if they did not answer after another, which
// therefore is no longer than it has to be.
Nanos Engine::next_sleep(Nanos now, bool busy, bool idle_threads) const {
  const Nanos delay{static_cast<int64_t>(options.sleeper_delay)};
  if (idle_threads && delay < kShortSleep) return delay;
  if (busy || now - last_busy_ < kStayAwake) return kShortSleep;
  return idle_threads && last_sleep_ == kLongSleep && delay < kLongSleep ? delay : kLongSleep;
}

Nanos Engine::step(Nanos now, bool busy) {
  keep_house(now);
  give_memory_back(now);
  const bool idle_threads = empty_idle_caches(now);
  if (heap.has_empty_pages() || last_break_ > last_busy_) last_busy_ = now;
  last_sleep_ = next_sleep(now, busy, idle_threads);
  dozing_.store(last_sleep_ > kShortSleep, std::memory_order_relaxed);
  return last_sleep_;
}

}  // namespace llamalloc
