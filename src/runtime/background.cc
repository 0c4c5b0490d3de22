// SPDX-License-Identifier: Apache-2.0
#include "runtime/background.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/errno_keeper.h"
#include "base/held_lines.h"
#include "os/clock.h"
#include "os/module_range.h"
#include "os/waiter.h"
#include "runtime/background_state.h"
#include "runtime/control.h"
#include "runtime/learning.h"
#include "runtime/output.h"
#include "runtime/own_thread.h"
#include "runtime/process.h"
#include "runtime/system_settings.h"

namespace llamalloc {

constinit Background background;
constinit std::atomic<bool> worker_start_due{false};

namespace {

constexpr size_t kWorkerStack = 512 * 1024;
constexpr Nanos kFirstPause = Nanos::seconds(10);  // between tries to start it; then doubled
constexpr Nanos kLongestPause = Nanos::seconds(300);
constexpr Nanos kPauseForLock = Nanos::millis(1);
constexpr Nanos kOthersMayStart = Nanos::seconds(10);  // before one of low priority does
constexpr Nanos kLookAgain = Nanos::millis(100);       // whether this thread may

// Until then the calling thread leaves the start to others; or only in frames up to there, inside a
// signal handler: where it has returned, the stack is shorter.
constinit thread_local int64_t leaves_start_until __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local uintptr_t leaves_start_below __attribute__((tls_model("initial-exec"))) = 0;

// Misses wake the worker; while nobody asks the model for each allocation there are only those of
// samples.
bool has_standing_work() {
  const bool asked = process.predictions_on.load(std::memory_order_relaxed);
  return (background.contexts.loaded() && asked) || process.profiler.on() ||
         writes_stats_while_running();
}

// filtered: the program filters system calls. Reading a name opens a file, and the filter may end
// the process for that.
void do_own_work(Nanos now, bool filtered) REQUIRES(background.work_lock) {
  if (!filtered && background.contexts.loaded() &&
      background.code.name_by(background.ensure_symboliser()))
    background.contexts.work(process.placement, process.counters, process.system);
  learn_if_due(now);
  if (!filtered) name_sampled_frames();
  write_profile_if_due(now);
  write_stats_if_due(now);
}

// Once a second: scratch memory of the worker goes back, and what the system grants may
// have changed.
void rest_if_due(Nanos now, bool filtered) REQUIRES(background.work_lock) {
  if (now - background.last_rest < kHousekeeping && now >= background.last_rest) return;
  background.last_rest = now;
  if (!filtered) look_at_system_settings(now);
  process.heap.pages().count_splits(!filtered);
  background.contexts.queue().rest(process.system);
}

// *counted: what was counted of this thread.
void count_time(Nanos* counted) {
  const Nanos used = read_clock(CLOCK_THREAD_CPUTIME_ID);
  process.counters.add(Stat::worker_nanos, static_cast<uint64_t>((used - *counted).n));
  *counted = used;
}

// When to come again. A filter of the program's own need not allow to ask what this took.
Nanos work_once(Nanos now, Nanos* counted) REQUIRES(background.work_lock) {
  const bool filtered = process_world.program_filters_calls();
  do_own_work(now, filtered);
  rest_if_due(now, filtered);
  const Nanos sleep = process.step(now, has_standing_work());
  if (!filtered) count_time(counted);
  return sleep;
}

void worker_main() {
  if (!process_world.program_filters_calls()) leave_starters_place();
  prctl(PR_SET_NAME, "llamalloc");
  {
    const HeldLines lines;
    LockGuard guard(background.work_lock);  // no thread forks meanwhile
    open_due_sockets();
  }
  Nanos counted{};
  while (true) {
    Nanos sleep;
    {
      const HeldLines lines;
      LockGuard guard(background.work_lock);
      sleep = work_once(process.system.now(), &counted);
    }
    background.waiter.wait(sleep);
  }
}

// A limit on threads or memory may be met for a while only.
void try_again_later() {
  const int64_t before = background.between_tries.load(std::memory_order_relaxed);
  const int64_t between = before == 0 ? kFirstPause.n : std::min(2 * before, kLongestPause.n);
  background.between_tries.store(between, std::memory_order_relaxed);
  background.next_try.store(process.system.now().n + between, std::memory_order_relaxed);
  if (!background.told_of_failure.exchange(true, std::memory_order_relaxed))
    print_line(
        "the background thread cannot be started (a limit on threads or on memory?); free memory "
        "stays in the process meanwhile; trying again now and then");
}

void forget_tries_in_child() {
  background.told_of_failure.store(true, std::memory_order_relaxed);
  background.next_try.store(0, std::memory_order_relaxed);
  background.between_tries.store(0, std::memory_order_relaxed);
  background.left_to_others.store(0, std::memory_order_relaxed);
}

bool may_try_now() {
  const int64_t next = background.next_try.load(std::memory_order_relaxed);
  return next == 0 || process.system.now().n >= next;
}

bool leaves_start_for_now(uintptr_t frame) {
  return process.system.now_coarse().n < leaves_start_until && frame <= leaves_start_below;
}

// To look again costs a walk over the stack.
void leave_start_for_now(uintptr_t below = UINTPTR_MAX) {
  leaves_start_until = process.system.now_coarse().n + kLookAgain.n;
  leaves_start_below = below;
}

// The worker holds locks that everybody waits for: started by a thread that runs only when others
// rest, it would do the same. A filter of the program's own may not allow the question.
bool leaves_start_to_others() {
  if (process_world.program_filters_calls() || !is_below_process()) return false;
  const int64_t now = process.system.now_coarse().n;
  int64_t since = 0;
  if (background.left_to_others.compare_exchange_strong(since, now, std::memory_order_relaxed))
    since = now;
  if (now - since >= kOthersMayStart.n) return false;
  leave_start_for_now();
  return true;
}

void want_started_worker() {
  if (process.ready.load(std::memory_order_relaxed) && process.options.worker && may_try_now())
    worker_start_due.store(true, std::memory_order_relaxed);
}

}  // namespace

// A worker that sleeps for a tenth of a second comes by itself. One that is woken may wait for a
// processor: it is not woken again meanwhile.
void want_worker() {
  if (!process.has_worker.load(std::memory_order_relaxed)) return want_started_worker();
  if (process.stop_dozing()) background.waiter.wake();
}

void call_worker() {
  if (!process.has_worker.load(std::memory_order_relaxed)) return want_started_worker();
  background.waiter.wake();
}

void want_idle_caches_emptied() {
  if (!process.has_worker.load(std::memory_order_relaxed) && process.options.release_sleepers)
    want_started_worker();
}

void remember_process() {
  background.pid.store(getpid(), std::memory_order_relaxed);
}

bool is_own_process() {
  return getpid() == background.pid.load(std::memory_order_relaxed);
}

bool wait_for_work_lock(Nanos longest) NO_THREAD_SAFETY_ANALYSIS {
  const Nanos end = process.system.now() + longest;
  Waiter pause;
  while (!background.work_lock.try_lock()) {
    if (Lock::this_thread_holds_all() || process.system.now() >= end) return false;
    pause.wait(kPauseForLock);
  }
  return true;
}

// In a child that shares our memory (vfork, clone(CLONE_VM)) it would end with the child.
bool start_worker() {
  if (!is_own_process()) return false;
  bool expected = false;
  worker_start_due.store(false, std::memory_order_relaxed);
  if (!process.options.worker) return false;
  if (!process.has_worker.compare_exchange_strong(expected, true)) return true;
  if (start_thread(worker_main, kWorkerStack)) return true;
  try_again_later();
  give_up_due_sockets();
  process.has_worker.store(false);
  return false;
}

void start_worker_at_safe_point(uintptr_t return_address) {
  ThreadCache* const cache = cache_slot.cache.load(std::memory_order_relaxed);
  if (cache == &empty_cache || cache->busy) return;
  if (Lock::this_thread_holds_all()) return;  // inside fork
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (leaves_start_for_now(frame) || is_in_system_library(return_address)) return;
  const ErrnoKeeper keep;  // it may be a free that starts it
  if (!is_own_process() || is_in_signal_handler()) return leave_start_for_now(frame);
  if (leaves_start_to_others()) return;
  cache->busy = 1;
  start_worker();
  cache->busy = 0;
}

void worker_after_fork_in_child() {
  remember_process();
  forget_tries_in_child();
  process.has_worker.store(false);
  background.work_lock.reset();
  background.contexts.queue().clear();
  if ((has_standing_work() || sockets_are_due()) && process.options.worker)
    worker_start_due.store(true);
}

void hand_to_worker(uint64_t key, uint64_t site_key, size_t size, CallSite site, bool recheck) {
  Miss* miss = background.contexts.queue().reserve(recheck);
  if (!recheck) process.counters.add(miss ? Stat::predict_misses : Stat::predict_dropped);
  if (miss == nullptr) {
    // It is asked for again, except where the worker answers none.
    if (!recheck && !process_world.program_filters_calls()) process.placement.abandon(key);
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
