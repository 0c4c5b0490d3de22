// SPDX-License-Identifier: Apache-2.0
#include "runtime/background.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "os/module_range.h"
#include "os/static_tls.h"
#include "os/waiter.h"
#include "runtime/allocator.h"
#include "runtime/background_state.h"
#include "runtime/idle_caches.h"
#include "runtime/output.h"
#include "runtime/process.h"

// Absent from a program linked statically.
#pragma weak dlsym

namespace llamalloc {

constinit Background background;
constinit std::atomic<bool> worker_start_due{false};

namespace {

constexpr Nanos kShortSleep = Nanos::millis(100);
constexpr Nanos kLongSleep = Nanos::seconds(10);
constexpr Nanos kDirectDelay = Nanos::millis(100);  // freed direct mappings go back after this
constexpr Nanos kStayAwake = Nanos::seconds(5);
constexpr size_t kWorkerStack = 512 * 1024;
constexpr size_t kLibraryStack = 64 * 1024;  // of glibc, where it does not say; 18 KiB in 2.36

bool is_due(Nanos& last, Nanos interval, Nanos now) {
  if (now - last < interval) return false;
  last = now;
  return true;
}

void look_at_outlivers(Nanos now, Nanos since) {
  process.profiler.for_each_live(now, [&](const Profiler::Live& live) {
    const Nanos bound = row(live.predicted).bound;
    const bool just_passed = bound.n != 0 && live.age > bound && live.age - since <= bound;
    if (live.context_key != 0 && just_passed)
      process.placement.observe(live.context_key, live.predicted, live.age);
  });
}

Nanos release_delay() {
  return Nanos{static_cast<int64_t>(Options::current(process.options.release_delay))};
}

// Longer than for an empty page: one in pieces is not as easily had again.
Nanos break_delay() {
  return {2 * release_delay().n};
}

void keep_house(Nanos now) {
  const Nanos since = now - background.last_house;
  if (!is_due(background.last_house, kHousekeeping, now)) return;
  collect_caches(now);
  const size_t promoted = process.heap.pages().promote_expired(now);
  process.counters.add(Stat::promotions, promoted);
  process.heap.pages().break_idle(now - break_delay());
  if (process.placement_on.load(std::memory_order_relaxed)) look_at_outlivers(now, since);
  background.contexts.queue().rest(process.system);
  if (background.symboliser != nullptr) background.symboliser->rest();
}

void give_memory_back(Nanos now) {
  process.heap.pages().collapse_first_pages();
  const Nanos delay = release_delay();
  process.heap.release(now - delay, Options::current(process.options.retain) / kHugePageSize);
  process.heap.release_direct(now - (delay < kDirectDelay ? delay : kDirectDelay));
}

bool has_standing_work() {
  return background.contexts.loaded() || process.profiler.on();
}

// Threads that were asked after a long sleep are asleep if they did not answer after another, which
// therefore is no longer than it has to be.
Nanos next_sleep(Nanos last, Nanos now, bool idle_threads) {
  const Nanos delay{static_cast<int64_t>(process.options.sleeper_delay)};
  if (idle_threads && delay < kShortSleep) return delay;
  if (has_standing_work() || now - background.last_busy < kStayAwake) return kShortSleep;
  return idle_threads && last == kLongSleep && delay < kLongSleep ? delay : kLongSleep;
}

void* worker_main(void*) {
  prctl(PR_SET_NAME, "llamalloc");
  Nanos sleep = kShortSleep;
  while (true) {
    const Nanos now = process.system.now();
    bool idle_threads = false;
    {
      LockGuard guard(background.work_lock);
      do_background_work(now);
      idle_threads = empty_idle_caches(now);
    }
    if (process.heap.has_empty_pages()) background.last_busy = now;
    sleep = next_sleep(sleep, now, idle_threads);
    background.dozing.store(sleep > kShortSleep, std::memory_order_relaxed);
    background.waiter.wait(sleep);
  }
  return nullptr;
}

}  // namespace

namespace {

// What the C library and static thread-local variables take of a thread's stack. glibc tells it to
// runtimes that make threads with stacks of their own size (OpenJDK and Rust's library ask in the
// same way); in a program linked statically it cannot be asked.
size_t least_stack(const pthread_attr_t& attributes) {
  using GetLeast = size_t(const pthread_attr_t*);
  if (&dlsym != nullptr)
    if (void* get = dlsym(RTLD_DEFAULT, "__pthread_get_minstack"))
      return reinterpret_cast<GetLeast*>(get)(&attributes);
  return thread_local_bytes() + kLibraryStack;
}

}  // namespace

bool start_thread(void* (*main)(void*), size_t stack_bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes + least_stack(attributes));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, &attributes, main, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

void do_background_work(Nanos now) {
  if (background.contexts.loaded() && background.ensure_symboliser())
    background.contexts.work(process.placement, *background.symboliser, process.counters,
                             process.system);
  keep_house(now);
  give_memory_back(now);
  name_sampled_frames();
  write_profile_if_due(now);
}

namespace {

void want_started_worker() {
  if (process.ready.load(std::memory_order_relaxed) && process.options.worker && !background.failed)
    worker_start_due.store(true, std::memory_order_relaxed);
}

}  // namespace

// A worker that sleeps for a tenth of a second comes by itself. One that is woken may wait for a
// processor: it is not woken again meanwhile.
void want_worker() {
  if (!background.running.load(std::memory_order_relaxed)) return want_started_worker();
  if (background.dozing.load(std::memory_order_relaxed) && background.dozing.exchange(false))
    background.waiter.wake();
}

bool worker_is_running() {
  return background.running.load(std::memory_order_relaxed);
}
bool worker_is_awake() {
  return worker_is_running() && !background.dozing.load(std::memory_order_relaxed);
}

void want_idle_caches_emptied() {
  if (!background.running.load(std::memory_order_relaxed) && process.options.release_sleepers)
    want_started_worker();
}

bool start_worker() {
  bool expected = false;
  worker_start_due.store(false, std::memory_order_relaxed);
  if (!process.options.worker) return false;
  if (!background.running.compare_exchange_strong(expected, true)) return true;
  if (start_thread(worker_main, kWorkerStack)) return true;
  background.running.store(false);
  background.failed = true;  // not again: the limit on threads is not likely to change
  return false;
}

void start_worker_at_safe_point(uintptr_t return_address) {
  ThreadCache* const cache = cache_slot.cache.load(std::memory_order_relaxed);
  if (cache == &empty_cache || cache->busy) return;
  if (Lock::this_thread_holds_all()) return;  // inside fork
  if (is_in_system_library(return_address)) return;
  cache->busy = 1;
  start_worker();
  cache->busy = 0;
}

void worker_after_fork_in_child() {
  background.running.store(false);
  background.work_lock.reset();
  background.contexts.queue().clear();
  if (has_standing_work() && process.options.worker) worker_start_due.store(true);
}

void hand_to_worker(uint64_t key, uint64_t site_key, size_t size, CallSite site, bool recheck) {
  Miss* miss = background.contexts.queue().reserve(recheck);
  if (!recheck) process.counters.add(miss ? Stat::predict_misses : Stat::predict_dropped);
  if (miss == nullptr) {
    if (!recheck) process.placement.abandon(key);
    return;
  }
  miss->key = key;
  miss->site_key = site_key;
  miss->size = size;
  miss->recheck = recheck;
  take_snapshot(site.return_address, miss->stack, Miss::kStackBytes, &miss->snapshot);
  background.contexts.queue().submit(miss);
  background.waiter.wake();
}

}  // namespace llamalloc
