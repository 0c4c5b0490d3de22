// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_world.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_keeper.h"
#include "os/own_stack.h"
#include "os/processor.h"
#include "os/thread_barrier.h"
#include "os/unwind.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/limits.h"
#include "runtime/misuse.h"
#include "runtime/probes.h"
#include "runtime/process.h"
#include "runtime/thread_exit.h"

namespace llamalloc {

constinit ProcessWorld process_world;

void ProcessWorld::start() {
  system_pages.start();
  if (process.options.release_sleepers) barrier_is_missing_ = !has_thread_barrier();
}

[[gnu::noinline]] Placement::Choice ProcessWorld::choose(ThreadCache& cache, const Request& request,
                                                         bool recheck) {
  const CallSite site = request.site;
  if (!cache.own_stack.contains(site.stack_pointer))
    cache.own_stack = own_stack_down_to(site.stack_pointer);
  Placement::Choice choice = process.choose_known(
      cache, request, [&] { return code_of(site.return_address); },
      [&](StackTrace* trace) { unwind_from_here(site.return_address, trace); });
  const bool asks = choice.is_of_context() && (choice.miss || recheck);
  if (asks && background.contexts.loaded()) {
    cache.busy = 1;
    hand_to_worker(choice.key, PredictionCache::site_key(site, key_class_of(request.size)),
                   request.size, site, !choice.miss);
    // The model knows it: no first object (Engine::may_sample_first).
    if (choice.miss) choice.miss = choice.first = false;
    cache.busy = 0;
  } else if (choice.miss) {
    process.counters.add(Stat::predict_misses);
  }
  return choice;
}

void ProcessWorld::trace_stack(const CallSite& site, StackTrace* out) {
  unwind_from_here(site.return_address, out);
}

uint32_t ProcessWorld::processor() {
  return this_processor();
}

void ProcessWorld::note_sample(const void* p, size_t size, double weight) {
  probe_alloc(p, size, weight);
}

void ProcessWorld::note_sample_end(const void* p) {
  probe_free(p);
}

bool ProcessWorld::may_adopt() {
  return !thread_is_past_exit();
}

void ProcessWorld::introduce_thread(ThreadCache& cache) {
  cache.own_stack = own_stack();
  name_thread(cache);
}

void ProcessWorld::name_thread(ThreadCache& cache) {
  cache.thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  cache.rng = here * 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(process.system.now().n) ^
              cache.thread_id;
}

bool ProcessWorld::will_tell_end() {
  return call_at_thread_exit();
}

// A filter of the program's own need not allow the question (option sleepers_despite_seccomp).
bool ProcessWorld::thread_exists(uint32_t thread_id) {
  if (process.options.sleepers_despite_seccomp || program_filters_calls()) return true;
  const ErrnoKeeper keep;
  const pid_t pid = background.pid.load(std::memory_order_relaxed);
  return syscall(SYS_tgkill, pid, thread_id, 0) == 0 || errno != ESRCH;
}

bool ProcessWorld::may_issue_barrier() {
  if (barrier_is_missing_) return false;
  if (process.options.sleepers_despite_seccomp) return true;
  const bool filtered = program_filters_calls();
  program_filters_.store(filtered, std::memory_order_relaxed);
  return !filtered;
}

void ProcessWorld::prepare_barrier() {
  prepare_thread_barrier();
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
void ProcessWorld::call_worker() {
  llamalloc::call_worker();
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
