// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "os/unwind.h"
#include "profile/sampler.h"
#include "runtime/background.h"
#include "runtime/thread_exit.h"

namespace llamalloc {

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

namespace {

// What an allocation's turn at the countdown brought up.
struct Due {
  bool sample = false;
  bool recheck = false;
};

int64_t interval_or_never(ThreadHeap* heap, bool on, uint64_t mean) {
  if (!on) return INT64_MAX / 4;
  return next_interval(heap->rng, static_cast<double>(mean)) - 1;  // due when below zero, not at it
}

void set_countdown(ThreadHeap* heap) {
  const int64_t next = heap->bytes_to_sample < heap->bytes_to_recheck ? heap->bytes_to_sample
                                                                      : heap->bytes_to_recheck;
  heap->countdown_start = next;
  heap->countdown.store(next, std::memory_order_relaxed);
}

void start_countdown(ThreadHeap* heap) {
  const bool predicting = process.placement_on.load(std::memory_order_acquire);
  heap->predicting = predicting;
  heap->sampling = process.profiler.on();
  heap->bytes_to_sample = interval_or_never(heap, heap->sampling, process.profiler.interval());
  heap->bytes_to_recheck = interval_or_never(heap, predicting, process.options.predict_recheck);
  set_countdown(heap);
}

// Runs when the countdown fell below zero: somebody called, or an interval is over.
Due tick(ThreadHeap* heap) {
  Due due;
  int64_t left = heap->countdown.load(std::memory_order_relaxed);
  while (left < -(kCallIn / 2)) left += kCallIn;
  const int64_t consumed = heap->countdown_start - left;
  heap->bytes_to_sample -= consumed;
  heap->bytes_to_recheck -= consumed;
  if (heap->housekeeping_due.exchange(false, std::memory_order_relaxed)) heap->flush(process.heap);
  if (heap->sampling != process.profiler.on() ||
      heap->predicting != process.placement_on.load(std::memory_order_acquire)) {
    start_countdown(heap);
    return due;
  }
  if (heap->bytes_to_sample < 0) {
    due.sample = true;
    heap->bytes_to_sample = interval_or_never(heap, true, process.profiler.interval());
  }
  if (heap->bytes_to_recheck < 0) {
    due.recheck = true;
    heap->bytes_to_recheck = interval_or_never(heap, true, process.options.predict_recheck);
  }
  set_countdown(heap);
  return due;
}

uint32_t current_cpu() {
  unsigned cpu = 0;
  getcpu(&cpu, nullptr);
  return cpu;
}

// The thread's own heap, made on its first slow path; null when it is past its exit handlers or
// there is no memory: then every call goes to the shared heap.
ThreadHeap* own_heap() {
  if (LLAMALLOC_LIKELY(current_heap != &empty_heap)) return current_heap;
  if (thread_is_past_exit()) return nullptr;
  ThreadHeap* heap = process.threads.adopt(process.arena);
  if (heap == nullptr) return nullptr;
  heap->thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  heap->stack_high = current_stack_window(here).high;
  heap->rng = here * 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(process.system.now().n) ^
              heap->thread_id;
  heap->busy = 1;
  current_heap = heap;
  start_countdown(heap);
  call_at_thread_exit();
  heap->busy = 0;
  return heap;
}

Placement::Choice choose_group(ThreadHeap* heap, size_t size, CallSite site, bool recheck) {
  if (heap == nullptr || !heap->predicting || heap->busy) return {};
  const int size_class =
      size <= kSmallMax ? size_class_of(size) : kSizeClasses + std::bit_width(size);
  Placement::Choice choice = process.placement.choose(site, heap->stack_high, size_class);
  if (choice.miss || recheck) {
    heap->busy = 1;
    hand_to_worker(choice.key, PredictionCache::site_key(site, size_class), size, site,
                   !choice.miss);
    heap->busy = 0;
  }
  return choice;
}

// A sampled allocation stands for many: how often the cache knew the context.
void count_prediction(size_t size, const Placement::Choice& choice) {
  if (!process.placement_on.load(std::memory_order_relaxed)) return;
  const double interval = static_cast<double>(process.profiler.interval());
  process.counters.add(choice.known ? Stat::predict_hits : Stat::predict_cold,
                       static_cast<uint64_t>(sample_weight(size, interval)));
}

// One object in a span of samples; its free comes to deallocate_slow.
void* allocate_sampled(ThreadHeap* heap, size_t size, CallSite site,
                       const Placement::Choice& choice) {
  heap->busy = 1;
  void* p = nullptr;
  if (size <= kSmallMax) {
    const Claim claim = process.heap.claim(bin_of(choice.group, size_class_of(size), true), 1);
    if (claim.mask != 0) p = claim.first_slot();
  } else if (Span* span = process.heap.allocate(size, 1, choice.group, true)) {
    p = span->base;
  }
  if (p != nullptr) {
    StackTrace trace;
    unwind_from_here(site.return_address, &trace);
    if (trace.truncated) process.counters.add(Stat::stacks_truncated);
    count_prediction(size, choice);
    process.profiler.on_alloc(p, size, trace, choice.key, choice.lifetime, process.system.now(),
                              heap->thread_id, current_cpu());
  }
  heap->busy = 0;
  return p ? p : out_of_memory();
}

void* allocate_shared(size_t size) {
  const Claim claim = process.heap.claim(bin_of(PageGroup::unknown, size_class_of(size), false), 1);
  return claim.mask != 0 ? claim.first_slot() : out_of_memory();
}

void* allocate_large(ThreadHeap* heap, size_t size, CallSite site, Due due) {
  const Placement::Choice choice = choose_group(heap, size, site, due.recheck);
  if (due.sample) return allocate_sampled(heap, size, site, choice);
  Span* span = process.heap.allocate(size, 1, choice.group, false);
  return span ? span->base : out_of_memory();
}

// The middle path: the bin is used up, and nothing else keeps it from the words the thread holds.
[[gnu::always_inline]] inline void* allocate_from_held(size_t size) {
  ThreadHeap* heap = current_heap;
  if (size > kSmallMax || heap->predicting || heap->countdown.load(std::memory_order_relaxed) < 0)
    return nullptr;
  const int size_class = size_class_of(size);
  return heap->adopt_held(size_class) ? heap->bins[size_class].take() : nullptr;
}

}  // namespace

void* allocate_slow(size_t size, CallSite site) {
  if (void* p = allocate_from_held(size)) return p;
  if (size > kLargestSize) return out_of_memory();
  ThreadHeap* heap = own_heap();
  start_worker_if_wanted(site.return_address);
  Due due;
  if (heap != nullptr && !heap->busy) {
    if (size > kSmallMax) {
      const int64_t counted = size < (size_t{1} << 50) ? static_cast<int64_t>(size) : 0;
      heap->countdown.store(heap->countdown.load(std::memory_order_relaxed) - counted,
                            std::memory_order_relaxed);
    }
    if (heap->countdown.load(std::memory_order_relaxed) < 0) due = tick(heap);
  }
  if (size > kSmallMax) return allocate_large(heap, size, site, due);
  if (heap == nullptr) return allocate_shared(size);
  const Placement::Choice choice = choose_group(heap, size, site, due.recheck);
  if (due.sample) return allocate_sampled(heap, size, site, choice);
  const int bin = bin_of(choice.group, size_class_of(size), false);
  if (heap->bins[bin].mask == 0 && !heap->refill(process.heap, bin)) return out_of_memory();
  return heap->bins[bin].take();
}

void* allocate_predicted(ThreadHeap* heap, size_t size, CallSite site) {
  const int size_class = size_class_of(size);
  const uint64_t key = process.placement.cache().context_key(site, heap->stack_high, size_class);
  const Prediction p = process.placement.cache().find(key);
  if (LLAMALLOC_UNLIKELY(!p.found)) return allocate_slow(size, site);
  const int bin = bin_of(p.group, size_class, false);
  if (LLAMALLOC_UNLIKELY(heap->bins[bin].mask == 0 && !heap->adopt_held(bin)))
    return allocate_slow(size, site);
  return heap->bins[bin].take();
}

namespace {

void note_sampled_free(ThreadHeap* heap, const void* p) {
  const uint32_t thread = heap ? heap->thread_id : 0;
  const auto freed = process.profiler.on_free(p, process.system.now(), thread, current_cpu());
  if (freed.found && freed.context_key != 0)
    process.placement.observe(freed.context_key, freed.predicted, freed.lifetime);
}

}  // namespace

void deallocate_other(void* p, Span* span, uint64_t* word, uint64_t bit, uintptr_t return_address) {
  ThreadHeap* heap = current_heap;
  const bool plain = span->kind == SpanKind::slots && !span->sampled && heap->in_use;
  if (LLAMALLOC_LIKELY(plain && heap->keep(span, word, bit))) return;
  deallocate_slow(p, span, word, bit, return_address);
}

void deallocate_slow(void* p, Span* span, uint64_t* word, uint64_t bit, uintptr_t return_address) {
  const int saved = errno;
  ThreadHeap* heap = own_heap();
  if (LLAMALLOC_UNLIKELY(span->sampled)) note_sampled_free(heap, p);
  uint64_t twice = 0;
  if (span->kind != SpanKind::slots)
    process.heap.deallocate(span);
  else if (heap == nullptr || span->sampled)
    twice = process.heap.give_back(span, word, bit);
  else
    twice = heap->take_in(process.heap, span, word, bit);
  if (LLAMALLOC_UNLIKELY(twice != 0)) report_bad_free(p, "freed twice (found when returned)", span);
  if (process.heap.has_empty_pages()) want_worker();
  start_worker_if_wanted(return_address);
  errno = saved;
}

void report_bad_free(const void* p, const char* what, const Span* span) {
  process.counters.add(Stat::bad_frees);
  if (span == nullptr)
    print_line("free(%p): %s; aborting", p, what);
  else
    print_line("free(%p): %s (objects of %zu bytes); aborting", p, what, span->object_size());
  abort();
}

}  // namespace llamalloc
