// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/errno_keeper.h"
#include "os/unwind.h"
#include "policy/hint.h"
#include "profile/sampler.h"
#include "runtime/background.h"
#include "runtime/foreign.h"
#include "runtime/hardened.h"
#include "runtime/idle_caches.h"
#include "runtime/misuse.h"
#include "runtime/own_cache.h"
#include "runtime/thread_exit.h"

namespace llamalloc {

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

void flush_cache(ThreadCache* cache) {
  if (const void* twice = cache->magazines.flush(process.heap)) report_double_free(twice);
}

namespace {

// What an allocation's turn at the countdown brought up.
struct Due {
  bool sample = false;
  bool recheck = false;
};

int64_t interval_or_never(ThreadCache* cache, bool on, uint64_t mean) {
  if (!on) return kCallIn / 4;  // never, yet a call brings it below zero
  // Less one: it is due when below zero, not at it.
  return next_interval(cache->rng, static_cast<double>(mean)) - 1;
}

void set_countdown(ThreadCache* cache) {
  const int64_t next = cache->bytes_to_sample < cache->bytes_to_recheck ? cache->bytes_to_sample
                                                                        : cache->bytes_to_recheck;
  cache->countdown_start = next;
  cache->countdown.store(next, std::memory_order_relaxed);
}

void start_countdown(ThreadCache* cache) {
  const bool predicting = process.placement_on.load(std::memory_order_acquire);
  cache->predicting = predicting;
  cache->sampling = process.profiler.on();
  cache->bytes_to_sample = interval_or_never(cache, cache->sampling, process.profiler.interval());
  cache->bytes_to_recheck = interval_or_never(cache, predicting, process.options.predict_recheck);
  set_countdown(cache);
}

// Runs when the countdown fell below zero: somebody called, or an interval is over.
Due tick(ThreadCache* cache) {
  Due due;
  int64_t left = cache->countdown.load(std::memory_order_relaxed);
  while (left < -(kCallIn / 2)) left += kCallIn;
  const int64_t consumed = cache->countdown_start - left;
  cache->bytes_to_sample -= consumed;
  cache->bytes_to_recheck -= consumed;
  if (cache->housekeeping_due.exchange(false, std::memory_order_relaxed)) {
    flush_cache(cache);
    cache->magazines.start_over();
  }
  if (cache->sampling != process.profiler.on() ||
      cache->predicting != process.placement_on.load(std::memory_order_acquire)) {
    start_countdown(cache);
    return due;
  }
  if (cache->bytes_to_sample < 0) {
    due.sample = true;
    cache->bytes_to_sample = interval_or_never(cache, true, process.profiler.interval());
  }
  if (cache->bytes_to_recheck < 0) {
    due.recheck = true;
    cache->bytes_to_recheck = interval_or_never(cache, true, process.options.predict_recheck);
  }
  set_countdown(cache);
  return due;
}

uint32_t current_cpu() {
  unsigned cpu = 0;
  getcpu(&cpu, nullptr);
  return cpu;
}

// The worker had a look at it, and may have emptied it (runtime/idle_caches.h); null: it is at it.
[[gnu::cold, gnu::noinline]] ThreadCache* take_back(ThreadCache* cache) {
  Custody now = cache->custody.load(std::memory_order_relaxed);
  // Acquire pairs with the release in end_claim.
  if (now == Custody::claimed ||
      !cache->custody.compare_exchange_strong(now, Custody::own, std::memory_order_acquire))
    return nullptr;
  cache_slot.cache.store(cache, std::memory_order_relaxed);
  return cache;
}

}  // namespace

ThreadCache* own_cache() {
  DCHECK(cache_slot.depth.load(std::memory_order_relaxed) != 0);
  ThreadCache* const current = cache_slot.cache.load(std::memory_order_relaxed);
  if (LLAMALLOC_LIKELY(current != &empty_cache)) return current;
  if (adopted_cache != nullptr) return take_back(adopted_cache);
  if (thread_is_past_exit()) return nullptr;
  ThreadCache* cache = process.threads.adopt(process.arena);
  if (cache == nullptr) return nullptr;
  cache->thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  cache->own_stack = own_stack();
  cache->rng = here * 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(process.system.now().n) ^
               cache->thread_id;
  cache->busy = 1;
  cache->tag = 0;
  adopted_cache = cache;
  cache_slot.cache.store(cache, std::memory_order_relaxed);
  start_countdown(cache);
  if (call_at_thread_exit()) process.threads.open_slot(cache, &cache_slot);
  cache->busy = 0;
  return cache;
}

namespace {

[[gnu::noinline]] Placement::Choice predict_group(ThreadCache* cache, size_t size, CallSite site,
                                                  bool recheck) {
  const int size_class =
      size <= kSmallMax ? size_class_of(size) : kSizeClasses + std::bit_width(size);
  if (LLAMALLOC_UNLIKELY(!cache->own_stack.contains(site.stack_pointer)))
    cache->own_stack = own_stack_down_to(site.stack_pointer);
  Placement::Choice choice = process.placement.choose(site, cache->own_stack, size_class);
  if (choice.miss || recheck) {
    cache->busy = 1;
    hand_to_worker(choice.key, PredictionCache::site_key(site, size_class), size, site,
                   !choice.miss);
    cache->busy = 0;
  }
  return choice;
}

[[gnu::always_inline]] inline Placement::Choice choose_group(ThreadCache* cache, size_t size,
                                                             const CallSite& site, bool recheck) {
  if (cache == nullptr || !cache->predicting || cache->busy) return {};
  return predict_group(cache, size, site, recheck);
}

// A sampled allocation stands for many: how often the cache knew the context.
void count_prediction(size_t size, const Placement::Choice& choice) {
  if (!process.placement_on.load(std::memory_order_relaxed)) return;
  const double interval = static_cast<double>(process.profiler.interval());
  process.counters.add(choice.known ? Stat::predict_hits : Stat::predict_cold,
                       static_cast<uint64_t>(sample_weight(size, interval)));
}

[[gnu::noinline]] void record_sample(ThreadCache* cache, const void* p, size_t size, CallSite site,
                                     const Placement::Choice& choice) {
  cache->busy = 1;
  StackTrace trace;
  unwind_from_here(site.return_address, &trace);
  if (trace.truncated) process.counters.add(Stat::stacks_truncated);
  count_prediction(size, choice);
  process.profiler.on_alloc(p, size, trace, choice.key, choice.lifetime, process.system.now(),
                            cache->thread_id, current_cpu(), cache->tag);
  cache->busy = 0;
}

// One object in a span of samples; its free comes to deallocate_slow.
void* allocate_sampled(ThreadCache* cache, size_t size, CallSite site,
                       const Placement::Choice& choice) {
  cache->busy = 1;
  void* p = nullptr;
  if (size <= kSmallMax) {
    p = process.heap.take_one(bin_of(choice.group, size_class_of(size), true));
  } else if (Span* span = process.heap.allocate(size, 1, choice.group, true)) {
    p = span->base;
  }
  cache->busy = 0;
  if (p == nullptr) return out_of_memory();
  record_sample(cache, p, size, site, choice);
  return p;
}

// A size that no class has counts here and not on the fast path.
int64_t count_down(ThreadCache* cache, size_t size) {
  const bool countable = size > kSmallMax && size < (size_t{1} << 50);
  const int64_t left = cache->countdown.load(std::memory_order_relaxed) -
                       (countable ? static_cast<int64_t>(size) : 0);
  cache->countdown.store(left, std::memory_order_relaxed);
  return left;
}

void* put_slot(ThreadCache* cache, int bin, void* p) {
  Magazine& magazine = cache->magazines.bins[bin];
  if (magazine.base != nullptr && magazine.top[-1] == p) return p;
  if (magazine.is_full())
    return cache->magazines.spill(process.heap, process.arena, bin, p, process.threads.in_use());
  magazine.push(p);
  return nullptr;
}

void* take_slot(ThreadCache* cache, int bin) {
  Magazine& magazine = cache->magazines.bins[bin];
  if (!magazine.is_empty()) return magazine.pop();
  void* p = cache->magazines.refill(process.heap, process.arena, bin, process.threads.in_use());
  return LLAMALLOC_LIKELY(p != nullptr) ? p : out_of_memory();
}

[[gnu::always_inline]] inline Due count_and_tick(ThreadCache* cache, size_t size) {
  Due due;
  if (LLAMALLOC_LIKELY(cache != nullptr && !cache->busy) && count_down(cache, size) < 0)
    due = tick(cache);
  return due;
}

// The same for what did not come by the fast path, which counts the sizes that have a class.
Due count_whole_and_tick(ThreadCache* cache, size_t size) {
  if (size <= kSmallMax)
    cache->countdown.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
  return count_and_tick(cache, size);
}

[[gnu::cold, gnu::noinline]] void* allocate_hardened(ThreadCache* cache, size_t size, CallSite site,
                                                     Due due) {
  const Placement::Choice choice = choose_group(cache, size, site, due.recheck);
  if (size > kLargestSize / 2) return out_of_memory();
  void* p = take_hardened(size, 1, choice.group);
  if (p == nullptr) return out_of_memory();
  if (due.sample) record_sample(cache, p, size, site, choice);
  return p;
}

[[gnu::noinline]] void* allocate_large_slow(size_t size, CallSite site) {
  const SlowPath slow;
  ThreadCache* cache = own_cache();
  start_worker_if_wanted(site.return_address);
  const Due due = count_and_tick(cache, size);
  if (LLAMALLOC_UNLIKELY(process.hardened)) return allocate_hardened(cache, size, site, due);
  if (size > kLargestSize) return out_of_memory();
  const Placement::Choice choice = choose_group(cache, size, site, due.recheck);
  if (LLAMALLOC_UNLIKELY(due.sample)) return allocate_sampled(cache, size, site, choice);
  Span* span = nullptr;
  if (size <= kRunMax && cache != nullptr)
    span = cache->magazines.take_run(process.heap, blocks_of_run(size), choice.group);
  if (span == nullptr) span = process.heap.allocate(size, 1, choice.group, false);
  return span ? span->base : out_of_memory();
}

// What was freed last is often what is asked for next. As on the fast path of a small size, the
// empty cache fails the test of the countdown.
[[gnu::noinline]] void* allocate_large(size_t size, CallSite site) {
  if (LLAMALLOC_UNLIKELY(size > kKeptMappingMax)) return allocate_large_slow(size, site);
  ThreadCache* cache = cache_slot.begin_call();
  const int64_t left =
      cache->countdown.load(std::memory_order_relaxed) - static_cast<int64_t>(size);
  if (LLAMALLOC_LIKELY(left >= 0 && !cache->predicting && !process.hardened)) {
    Span* span = size > kRunMax ? process.heap.take_last_direct(size)
                                : cache->magazines.take_run(process.heap, blocks_of_run(size),
                                                            PageGroup::unknown);
    if (LLAMALLOC_LIKELY(span != nullptr)) {
      cache->countdown.store(left, std::memory_order_relaxed);
      cache_slot.end_call();
      return span->base;
    }
  }
  return allocate_large_slow(size, site);
}

[[gnu::noinline]] void* allocate_small(size_t size, CallSite site) {
  const SlowPath slow;
  ThreadCache* cache = own_cache();
  start_worker_if_wanted(site.return_address);
  const Due due = count_and_tick(cache, size);
  if (LLAMALLOC_UNLIKELY(process.hardened)) return allocate_hardened(cache, size, site, due);
  const Placement::Choice choice = choose_group(cache, size, site, due.recheck);
  if (due.sample) return allocate_sampled(cache, size, site, choice);
  const int bin = bin_of(choice.group, size_class_of(size), false);
  if (LLAMALLOC_LIKELY(cache != nullptr)) return take_slot(cache, bin);
  void* p = process.heap.take_one(bin);
  return p ? p : out_of_memory();
}

}  // namespace

void* allocate_slow(size_t size, CallSite site) {
  return size > kSmallMax ? allocate_large(size, site) : allocate_small(size, site);
}

void* allocate_growing(size_t size, CallSite site) {
  const SlowPath slow;
  ThreadCache* cache = own_cache();
  if (cache == nullptr || cache->busy || process.hardened) return allocate(size, site);
  const Due due = count_whole_and_tick(cache, size);
  const Placement::Choice choice = choose_group(cache, size, site, due.recheck);
  if (due.sample) return allocate_sampled(cache, size, site, choice);
  Span* span = process.heap.allocate_growing(size, choice.group);
  return span ? span->base : out_of_memory();
}

// Not worth a fast path of its own: what a compiler marks as cold is seldom allocated.
void* allocate_hinted(size_t size, size_t alignment, uint8_t hotness, CallSite site) {
  if (!is_cold(hotness) || alignment > 16 || size > kSmallMax || process.hardened)
    return allocate_aligned(size, alignment, site);
  const SlowPath slow;
  ThreadCache* cache = own_cache();
  if (cache == nullptr || cache->busy) return allocate(size, site);
  const Due due = count_whole_and_tick(cache, size);
  Placement::Choice choice = choose_group(cache, size, site, due.recheck);
  choice.group = group_with_hint(choice, hotness);
  if (due.sample) return allocate_sampled(cache, size, site, choice);
  return take_slot(cache, bin_of(choice.group, size_class_of(size), false));
}

namespace {

[[gnu::noinline]] void* allocate_looked_up(ThreadCache* cache, size_t size, CallSite site,
                                           int size_class) {
  const uint64_t key = prediction_cache.context_key(site, cache->own_stack, size_class);
  const Prediction p = prediction_cache.find(key);
  Magazine& magazine = cache->magazines.bins[bin_of(p.group, size_class, false)];
  if (LLAMALLOC_UNLIKELY(!p.found || magazine.is_empty())) return allocate_slow(size, site);
  return pop_and_end_call(&magazine);
}

}  // namespace

void* allocate_predicted(size_t size, CallSite site, ThreadCache* cache, int size_class) {
  const uint64_t slot = prediction_cache.find_quickly(site, cache->own_stack.high, size_class);
  if (LLAMALLOC_UNLIKELY(slot == 0)) return allocate_looked_up(cache, size, site, size_class);
  Magazine* magazine =
      &cache->magazines.bins[bin_of(PredictionCache::group_in(slot), size_class, false)];
  if (LLAMALLOC_UNLIKELY(magazine->is_empty())) return allocate_slow(size, site);
  return pop_and_end_call(magazine);
}

namespace {

void note_sampled_free(ThreadCache* cache, const void* p) {
  const uint32_t thread = cache ? cache->thread_id : 0;
  const auto freed = process.profiler.on_free(p, process.system.now(), thread, current_cpu());
  if (freed.found && freed.context_key != 0)
    process.placement.observe(freed.context_key, freed.predicted, freed.lifetime);
}

// Whether anything is left to do with it: *p and *span are then what goes to the heap.
[[gnu::cold]] bool deallocate_hardened(ThreadCache* cache, void** p, Span** span, size_t given) {
  if (!end_hardened(*p, *span, given)) return false;
  note_sampled_free(cache, *p);
  *p = hold_back(*p, *span);
  if (*p != nullptr) *span = process.heap.find(*p);
  return *p != nullptr;
}

[[gnu::always_inline]] inline void give_to_heap(ThreadCache* cache, void* p, Span* span) {
  void* twice = nullptr;
  const int bin = span->local_bin();
  if (span->kind != SpanKind::slots)
    process.heap.deallocate(span);
  else if (cache == nullptr || bin == kNoLocalBin)
    twice = process.heap.give_one(p);
  else
    twice = put_slot(cache, bin, p);
  if (LLAMALLOC_UNLIKELY(twice != nullptr)) report_double_free(twice);
}

// What most objects above kSmallMax need: no lock, no system call. Only while a worker runs that
// will give back what is kept here.
[[gnu::always_inline]] inline bool keep_large(Span* span, size_t given) {
  if (span->kind == SpanKind::slots || span->sampled) return false;
  if (given != kUnknownSize && given > span->object_size()) return false;
  if (span->kind == SpanKind::direct) return worker_is_awake() && process.heap.keep_direct(span);
  ThreadCache* cache = cache_slot.cache.load(std::memory_order_relaxed);
  return cache != &empty_cache && worker_is_running() &&
         cache->magazines.keep_run(process.heap, span, process.threads.in_use());
}

[[gnu::always_inline]] inline void deallocate_slowly(void* p, size_t given,
                                                     uintptr_t return_address) {
  Span* span = process.heap.find(p);
  if (LLAMALLOC_UNLIKELY(span == nullptr)) {
    if (p != nullptr) report_bad_free(p, "not allocated by llamalloc", nullptr);
    return;
  }
  const SlowPath slow;
  if (LLAMALLOC_UNLIKELY(!span->starts_object(p)))
    return report_bad_free(p, "not the start of an object", span);
  if (keep_large(span, given)) return;
  const ErrnoKeeper keep;
  ThreadCache* cache = own_cache();
  bool to_heap = true;
  if (LLAMALLOC_UNLIKELY(is_hardened(span)))
    to_heap = deallocate_hardened(cache, &p, &span, given);
  else if (LLAMALLOC_UNLIKELY(given != kUnknownSize && given > span->object_size()))
    note_wrong_size(p, span, given);
  if (LLAMALLOC_UNLIKELY(span->sampled) && !process.hardened) note_sampled_free(cache, p);
  if (to_heap) give_to_heap(cache, p, span);
  if (process.heap.has_empty_pages())
    want_worker();
  else if (process.heap.pages().in_use() >= kFewPages)
    want_idle_caches_emptied();
  start_worker_if_wanted(return_address);
}

}  // namespace

void deallocate_slow(void* p, uintptr_t return_address) {
  deallocate_slowly(p, kUnknownSize, return_address);
}

void deallocate_slow(void* p, size_t given, uintptr_t return_address) {
  deallocate_slowly(p, given, return_address);
}

void report_double_free(const void* p, const char* what) {
  cache_slot.end_call();
  report_bad_free(p, what, process.heap.find(p));
}

void report_bad_free(const void* p, const char* what, const Span* span) {
  if (span == nullptr && free_foreign(const_cast<void*>(p))) return;
  report_misuse(p, span, "%s", what);
}

void collect_caches(Nanos now) {
  process.threads.request_housekeeping(now);
  if (const void* twice = process.heap.drain_depots()) report_double_free(twice);
}

Released release_memory(size_t keep) {
  {
    const SlowPath slow;
    ThreadCache* const cache = cache_slot.cache.load(std::memory_order_relaxed);
    if (cache != &empty_cache) flush_cache(cache);
  }
  const Nanos now = process.system.now();
  collect_caches(now);
  return {process.heap.release(now, keep / kHugePageSize) * kHugePageSize,
          process.heap.release_direct(Nanos::max()), process.heap.pages().break_idle(now)};
}

}  // namespace llamalloc
