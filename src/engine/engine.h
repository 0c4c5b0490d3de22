// SPDX-License-Identifier: Apache-2.0
// What an allocation does, whole: its shape, its class, samples, caches, hardening, resizes, and
// the work in the background as steps in time. Threads, signals, forks and options belong to
// runtime; the simulator drives the same engine with a clock of its own.
//
//   request --> count down --> (due: sample, recheck, housekeeping) --> choose a class --> take
//   free    --> keep what is large | end of a sample | magazine --> heap
//   step    --> collect caches, promote, break, release, empty idle caches --> when to come again
//
// The fast paths, which need nothing of this, are in runtime/allocator.h.
#pragma once

#include "base/counters.h"
#include "base/options.h"
#include "engine/hardened.h"
#include "engine/request.h"
#include "engine/thread_registry.h"
#include "engine/world.h"
#include "heap/heap.h"
#include "os/arena.h"
#include "policy/placement.h"
#include "profile/profiler.h"

namespace llamalloc {

inline constexpr Nanos kHousekeeping = Nanos::seconds(1);
inline constexpr Nanos kShortSleep = Nanos::millis(100);
inline constexpr Nanos kLongSleep = Nanos::seconds(10);
// Huge pages in use below which idle threads keep what they have: they pin no more than these.
inline constexpr size_t kFewPages = 4;
inline constexpr size_t kUnknownSize = ~size_t{0};

// What went back to the system: empty huge pages, freed mappings of large objects, and the free
// part of pages that hold little. Bytes.
struct Released {
  size_t empty_pages;
  size_t mappings;
  size_t broken_pages;
  size_t total() const { return empty_pages + mappings + broken_pages; }
};

class Engine {
 public:
  constexpr Engine(PageSource& pages, HeapTables& tables, PredictionCache& predictions,
                   ThreadCache& empty_cache, World& surroundings)
      : system(pages),
        arena(pages),
        heap(pages, arena, tables),
        profiler(arena, pages),
        placement(predictions, counters),
        threads(empty_cache),
        world(surroundings),
        hardening(heap, surroundings) {}

  PageSource& system;
  MetadataArena arena;
  Heap heap;
  Options options;
  Counters counters;
  Profiler profiler;
  Placement placement;
  ThreadRegistry threads;
  World& world;
  Hardening hardening;
  std::atomic<bool> placement_on{false};  // predictions are asked for
  std::atomic<bool> has_worker{false};    // somebody calls step() when it says

  // A new thread has this cache; it must be adopted and empty.
  void start_countdown(ThreadCache* cache);
  // Gives back what the thread has cached.
  void flush_cache(ThreadCache* cache);

  // The slow paths. cache: the calling thread's, or null (engine/thread_cache.h).
  // Null: no memory.
  void* allocate(ThreadCache* cache, const Request& request);
  // Whether the object was kept for reuse as it is; else deallocate has to follow. What most
  // objects above kSmallMax need: no lock, no system call. Only while a worker runs that will give
  // back what is kept here.
  [[gnu::always_inline]] bool keep_large(ThreadCache* cache, Span* span, size_t given) {
    if (span->kind == SpanKind::slots || span->sampled) return false;
    if (given != kUnknownSize && given > span->object_size()) return false;
    if (!has_worker.load(std::memory_order_relaxed)) return false;
    if (span->kind == SpanKind::direct) return !is_dozing() && heap.keep_direct(span);
    return cache != nullptr && cache->magazines.keep_run(heap, span, threads.in_use());
  }
  // p: the start of an object in span. given: the size that a sized delete named.
  void deallocate(ThreadCache* cache, void* p, Span* span, size_t given);
  // The object with its new size where it lies, or where the system moved it; null: the caller has
  // to allocate, copy and free. p: the start of an unhardened object in span.
  void* resize_in_place(void* p, Span* span, size_t size);

  // Asks every thread to return what it holds with its next bookkeeping, and gives back what lies
  // in depots.
  void collect_caches(Nanos now);
  // What is empty goes back to the system now, less `keep` bytes of pages.
  Released release(size_t keep);
  // One step of the background work at `now`; the result: when to come again. busy: the caller has
  // work of its own that cannot wait for long. One caller at a time.
  Nanos step(Nanos now, bool busy);
  // Asleep for long: want_worker has to wake it.
  bool is_dozing() const { return dozing_.load(std::memory_order_relaxed); }
  // True once: the caller is the one who wakes it.
  bool stop_dozing() { return is_dozing() && dozing_.exchange(false); }

 private:
  // What an allocation's turn at the countdown brought up.
  struct Due {
    bool sample = false;
    bool recheck = false;
  };
  Due count(ThreadCache* cache, const Request& request);
  Due tick(ThreadCache* cache);
  int64_t interval_or_never(ThreadCache* cache, bool on, uint64_t mean);
  Placement::Choice choose(ThreadCache* cache, const Request& request, bool recheck);
  void* take(ThreadCache* cache, const Request& request, PageGroup group);
  void* take_slot(ThreadCache* cache, int bin);
  void* take_whole(ThreadCache* cache, const Request& request, PageGroup group);
  void* take_sampled(const Request& request, PageGroup group);
  void* allocate_apart(ThreadCache* cache, const Request& request, const Placement::Choice& choice,
                       bool sample);
  void record_sample(ThreadCache* cache, const void* p, const Request& request,
                     const Placement::Choice& choice);
  void count_prediction(size_t size, const Placement::Choice& choice);
  void note_sampled_free(ThreadCache* cache, const void* p);
  void give(ThreadCache* cache, void* p, Span* span);
  void* put_slot(ThreadCache* cache, int bin, void* p);
  bool end_hardened(ThreadCache* cache, void** p, Span** span, size_t given);
  void* resize_sampled(Span* span, size_t size);
  void report_double_free(const void* p);

  void keep_house(Nanos now);
  void look_at_outlivers(Nanos now, Nanos since);
  void give_memory_back(Nanos now);
  Nanos release_delay() const;
  bool empty_idle_caches(Nanos now);
  bool may_claim();
  void flush_and_return(ThreadCache* cache);
  void leave_to_its_thread(ThreadCache* cache, Nanos now);
  Nanos next_sleep(Nanos now, bool busy, bool idle_threads) const;

  Nanos last_house_{};
  Nanos last_busy_{};
  Nanos last_sleep_ = kShortSleep;
  std::atomic<bool> dozing_{false};
};

}  // namespace llamalloc
