// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_world.h"

#include <sched.h>

#include <bit>

#include "os/own_stack.h"
#include "os/thread_barrier.h"
#include "os/unwind.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/limits.h"
#include "runtime/misuse.h"
#include "runtime/process.h"

namespace llamalloc {

constinit ProcessWorld process_world;

void ProcessWorld::start() {
  filter_at_start_ = system_call_filter();
  if (process.options.release_sleepers) barrier_is_missing_ = !has_thread_barrier();
}

// From what was learned. False: nothing is known of the context, and its key stays marked as seen
// until something is.
bool ProcessWorld::resolve(ThreadCache& cache, const Request& request, int size_class,
                           Placement::Choice* choice) {
  const CallSite site = request.site;
  process.counters.add(Stat::predict_misses);
  cache.busy = 1;
  const ContextResolver::Answer answer = process.known_contexts.resolve(
      code_of(site.return_address), request.size, prediction_cache.sites,
      [&](StackTrace* trace) { unwind_from_here(site.return_address, trace); });
  cache.busy = 0;
  if (!answer.known) return false;
  LifetimeClass lifetime = answer.lifetime;
  const bool late = process.late.load(std::memory_order_relaxed);
  if (dies_soon(lifetime) && (late || !answer.whole)) lifetime = LifetimeClass::mixed;
  // With the callers that the answer depends on, which it may not have had before.
  const uint64_t key =
      answer.by_site ? 0 : prediction_cache.context_key(site, cache.own_stack, size_class);
  if (answer.by_site)
    process.placement.settle_site(site, size_class, lifetime);
  else
    process.placement.settle(key, lifetime);
  *choice = {
      .key = key, .lifetime = lifetime, .group = group_of(lifetime), .known = true, .miss = false};
  return true;
}

[[gnu::noinline]] Placement::Choice ProcessWorld::choose(ThreadCache& cache, const Request& request,
                                                         bool recheck) {
  const CallSite site = request.site;
  const int size_class = request.size <= kSmallMax
                             ? size_class_of(request.size)
                             : kSizeClasses + std::bit_width(request.size - 1);
  if (!cache.own_stack.contains(site.stack_pointer))
    cache.own_stack = own_stack_down_to(site.stack_pointer);
  Placement::Choice choice = process.placement.choose(site, cache.own_stack, size_class);
  if (choice.miss && process.known_contexts.is_open() &&
      resolve(cache, request, size_class, &choice))
    return choice;
  if ((choice.miss || recheck) && background.contexts.loaded()) {
    cache.busy = 1;
    hand_to_worker(choice.key, PredictionCache::site_key(site, size_class), request.size, site,
                   !choice.miss);
    cache.busy = 0;
  }
  return choice;
}

void ProcessWorld::trace_stack(const CallSite& site, StackTrace* out) {
  unwind_from_here(site.return_address, out);
}

uint32_t ProcessWorld::processor() {
  unsigned cpu = 0;
  getcpu(&cpu, nullptr);
  return cpu;
}

bool ProcessWorld::may_issue_barrier() {
  if (barrier_is_missing_) return false;
  if (process.options.sleepers_despite_seccomp) return true;
  const bool filtered = program_filters_calls();
  program_filters_.store(filtered, std::memory_order_relaxed);
  return !filtered;
}

bool ProcessWorld::issue_barrier() {
  barrier_is_missing_ = !issue_thread_barrier();
  return !barrier_is_missing_;
}

const char* ProcessWorld::idle_caches_state() const {
  if (!process.options.release_sleepers) return "off: release_sleepers:off";
  if (barrier_is_missing_) return "off: the system call membarrier is missing or not allowed";
  if (program_filters_.load(std::memory_order_relaxed))
    return "off: the program installed a seccomp filter; if it allows membarrier and prctl, set "
           "sleepers_despite_seccomp:on";
  return "on";
}

Pressure ProcessWorld::pressure(Nanos now) {
  return memory_pressure(now);
}
void ProcessWorld::want_worker() {
  llamalloc::want_worker();
}
void ProcessWorld::want_idle_caches_emptied() {
  llamalloc::want_idle_caches_emptied();
}

void ProcessWorld::report_misuse(const void* p, const Span* span, const char* what) {
  llamalloc::report_misuse(p, span, "%s", what);
}
void ProcessWorld::note_wrong_size(const void* p, const Span* span, size_t given) {
  llamalloc::note_wrong_size(p, span, given);
}

}  // namespace llamalloc
