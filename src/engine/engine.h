// SPDX-License-Identifier: Apache-2.0
// Allocation, free and resize as a whole: size class, lifetime class, sampling, thread caches,
// hardening; and the background work, one step at a time. Threads, signals, forks and reading
// options belong to runtime. The simulator drives the same engine with its own clock.
//
//   request --> count down --> (due: sample, recheck, housekeeping) --> choose a class --> take
//   free    --> keep a large object for reuse | end of a sample | magazine --> heap
//   resize  --> in place | allocate, copy, free
//   step    --> collect caches, promote, break, release, empty idle caches --> time of next step
//
// The fast paths are in runtime/allocator.h.
#pragma once

#include "base/counters.h"
#include "base/errno_keeper.h"
#include "base/options.h"
#include "engine/hardened.h"
#include "engine/request.h"
#include "engine/thread_registry.h"
#include "engine/world.h"
#include "heap/heap.h"
#include "learning/trust.h"
#include "os/arena.h"
#include "placement/context_resolver.h"
#include "placement/placement.h"
#include "profile/profiler.h"
#include "release/break_patience.h"
#include "release/cache_bypass.h"
#include "release/hold_time.h"
#include "release/release_plan.h"

namespace llamalloc {

// Whether objects are placed by lifetime. given_up: not soon again. rests: until the load is
// higher. explored: not, but their contexts are looked at. late: only what stays leaves the pages
// of unknown objects (Gate::is_late). sure: all, and it saves memory, as measured or clearly
// foretold (Gate::is_sure).
enum class Placing : uint8_t { given_up, rests, explored, late, all, sure };

inline constexpr Nanos kHousekeeping = Nanos::seconds(1);
// How long blocks of unknown objects fill any hole in the pages of other groups while placement
// rests. Where it is given up all pages are those of unknown objects.
inline constexpr Nanos kFillsLeftOver = Nanos::seconds(60);
inline constexpr Nanos kShortSleep = Nanos::millis(100);
inline constexpr Nanos kLongSleep = Nanos::seconds(10);
// Where fewer huge pages than that were ever taken, each time counted, idle threads keep their
// caches: they cannot pin more pages.
inline constexpr size_t kFewPages = 4;
inline constexpr size_t kUnknownSize = ~size_t{0};

// Bytes that were returned to the system: empty huge pages, freed mappings of large objects, and
// the free part of others.
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
  Trust trust;                              // in predictions, by what is sampled
  ContextResolver known_contexts;           // closed unless learning or a model
  std::atomic<bool> placement_on{false};    // objects are placed by lifetime
  std::atomic<bool> predictions_on{false};  // predictions are asked for, by each allocation
  // Predictions are asked for samples also while nothing is placed by them: of a model, which is
  // measured so.
  std::atomic<bool> foresees{false};
  // What is known to die soon is answered by context, even where the site decides, and the first
  // object of each context is sampled: one of them may hold what stays, and be too rare to have
  // been seen among the others.
  std::atomic<bool> explores{false};
  std::atomic<bool> has_worker{false};  // step() is called when due

  // Samples of first objects: so many at once, and one more each time this has passed. One takes
  // some 7,000 instructions.
  static constexpr int kFirstsAtOnce = 256;
  static constexpr Nanos kFirstsRest = Nanos::millis(20);

  // A thread that allocates so much looks whether samples are worth it (sample_from).
  static constexpr int64_t kLookAtGrowth = int64_t{1} << 20;

  // Samples begin, `interval` bytes apart, as soon as the heap holds so many bytes, without waiting
  // for the worker: a heap may grow by hundreds of MiB until that comes round. 0: not by
  // themselves.
  void sample_from(size_t held, uint64_t interval);
  // What the heap has to know of the options. Before the first huge page is in use.
  void apply_options();
  // From now on, in every thread.
  void start_sampling(uint64_t interval, Nanos now);
  void start_placing(bool on);

  // A thread has a slot, where its fast paths find its cache, and the cache that it has adopted, or
  // null (engine/cache_slot.h).
  //
  // The thread's cache, for its slow paths; adopted by the first call. Null if there is no memory,
  // if the thread is past its exit handlers, or while the worker has the cache: then the call uses
  // the shared heap. Call it only inside a slow path; the result is valid until that ends.
  [[gnu::always_inline]] ThreadCache* own_cache(CacheSlot& slot, ThreadCache*& adopted) {
    ThreadCache* const current = slot.cache.load(std::memory_order_relaxed);
    if (__builtin_expect(current != threads.empty(), 1)) return current;
    return adopted != nullptr ? take_back(slot, adopted) : adopt(slot, adopted);
  }
  // By the thread of a cache that it has adopted: the cache comes back at the thread's end, and may
  // be claimed. Where the world will not tell of that end yet, the next tick asks again.
  void announce(ThreadCache* cache);
  // Of a cache that was just adopted, so it is empty; or of one whose thread counts for something
  // else from now on.
  void start_countdown(ThreadCache* cache);
  // The thread ends: gives back what it has cached.
  void end_thread(CacheSlot& slot, ThreadCache*& adopted);
  // Gives back what the thread has cached.
  void flush_cache(ThreadCache* cache);

  // What sampled objects say of predictions. About once a second, by one thread.
  Trust::Figures look_at_trust(Nanos now);
  // From now on; true: it was not so before.
  bool place_by_lifetime(Placing how);
  bool explore(bool on);
  // The class and page group of an allocation, from the cache or from what was learned. On a miss
  // code() gives StackTrace::codes of the site, and unwind(StackTrace*) the stack if it is needed.
  template <typename Code, typename Unwind>
  Placement::Choice choose_known(ThreadCache& cache, const Request& request, Code&& code,
                                 Unwind&& unwind) {
    const int size_class = key_class_of(request.size);
    Placement::Choice choice = placement.choose(request.site, cache.own_stack, size_class);
    if (!choice.miss || !known_contexts.is_open()) return choice;
    cache.busy = 1;
    const ContextResolver::Answer answer = known_contexts.resolve(
        request.site.return_address, code(), request.size, placement.cache().sites, unwind);
    cache.busy = 0;
    if (!answer.known) return choice;
    counters.add(Stat::predict_misses);
    settle(cache, request.site, size_class, answer, &choice);
    choice.slow = true;
    return choice;
  }

  // The slow paths. cache: the calling thread's, or null (engine/thread_cache.h).
  // Null: no memory.
  void* allocate(ThreadCache* cache, const Request& request);
  // Keeps a freed object above kSmallMax for reuse, mostly without a lock or system call; a run for
  // which there is no room is freed. `no`: nothing was done, and the caller must deallocate it. The
  // worker, which later returns what is kept, is wanted as soon as that is more than one run; a
  // mapping is kept only while it is awake.
  enum class Kept : uint8_t { no, yes, and_worker_wanted };
  [[gnu::always_inline]] Kept keep_large(ThreadCache* cache, Span* span, size_t given) {
    if (span->kind == SpanKind::slots || span->sampled) return Kept::no;
    if (given != kUnknownSize && given > span->object_size()) return Kept::no;
    const bool worked = has_worker.load(std::memory_order_relaxed);
    if (span->kind == SpanKind::direct)
      return worked && !is_dozing() && heap.keep_direct(span) ? Kept::yes : Kept::no;
    if (cache == nullptr || !cache->magazines.keep_run(heap, span, threads.in_use()))
      return Kept::no;
    if (__builtin_expect((worked && !is_dozing()) || !heap.has_empty_pages(), 1)) return Kept::yes;
    want_worker();
    return Kept::and_worker_wanted;
  }
  // A free that its fast path left over, inside a slow path of the thread that has the slot. True:
  // keep_large did it, and nobody has to be started. errno stays. p, span, given: as for
  // deallocate.
  [[gnu::always_inline]] bool free(CacheSlot& slot, ThreadCache*& adopted, void* p, Span* span,
                                   size_t given) {
    ThreadCache* const current = slot.cache.load(std::memory_order_relaxed);
    const Kept kept = keep_large(current != threads.empty() ? current : nullptr, span, given);
    if (kept != Kept::no) return kept == Kept::yes;
    const ErrnoKeeper keep;
    deallocate(own_cache(slot, adopted), p, span, given);
    return false;
  }
  // The same for a thread that shall not adopt a cache.
  void free_without_cache(void* p, Span* span, size_t given) {
    const ErrnoKeeper keep;
    deallocate(nullptr, p, span, given);
  }
  // p: the start of an object in span. given: the size that a sized delete named.
  void deallocate(ThreadCache* cache, void* p, Span* span, size_t given);
  // What the program may use of an unhardened object. A sample may use no more of its larger slot
  // than others have: where they move and are told anew, it has to.
  size_t usable_size(const void* p, const Span* span) {
    return __builtin_expect(span->sampled, 0) ? usable_of_sample(p, span) : span->object_size();
  }
  // Resizes without a copy; the system may move a mapping. Null: the object has to move. p: the
  // start of an unhardened object in span.
  void* resize_in_place(void* p, Span* span, size_t size);
  // realloc of the object that starts at p in span, to at most kLargestSize: in place, or else by
  // move(have), which allocates (heap/heap.h, may_grow_again), copies, frees, and returns where the
  // object is then. have: its bytes; hardened, those that were asked for.
  template <typename Move>
  [[gnu::always_inline]] void* resize(void* p, Span* span, size_t size, Move&& move) {
    if (hardening.is_hardened(span)) {
      const size_t asked = hardening.size_of(p, span);
      return asked == size ? p : move(asked);
    }
    const size_t have = span->object_size();
    void* resized = resize_in_place(p, span, size);
    return __builtin_expect(resized != nullptr, 1) ? resized : move(have);
  }

  // Asks every thread to return its cache at its next housekeeping, and empties the depots.
  void collect_caches(Nanos now);
  // Returns free memory to the system now, but keeps `keep` bytes of empty huge pages. Pages that
  // are partly free are left to release_free_parts.
  Released release(size_t keep);
  // Breaks some of the pages of which no block was taken since `before`: up to 3/4 full ones, or
  // only sparse ones while mending is owed for, except at a limit. Counts what went back. False: no
  // such page is left, or the system takes no more. One caller at a time, not during step(); each
  // call is short, so that others come in between.
  bool release_free_parts(Nanos before, Released* released);
  // Does one step of the background work at `now`. Returns how long to sleep until the next step.
  // busy: the caller has urgent work of its own. One caller at a time.
  Nanos step(Nanos now, bool busy);
  // A child's own worker has not been called, and is late for nothing.
  void forget_call() {
    asked_at_.store(0, std::memory_order_relaxed);
    next_step_ = {};
  }
  // The worker sleeps for long, so want_worker has to wake it.
  bool is_dozing() const { return dozing_.load(std::memory_order_relaxed); }
  // True for one caller only, which then wakes the worker.
  bool stop_dozing() { return is_dozing() && dozing_.exchange(false); }
  // What is backed: huge pages, mappings, and our own tables.
  size_t backed_bytes() const {
    return heap.pages().demand().level().backed + heap.direct().bytes() +
           heap.direct().kept_bytes() + arena.used_bytes();
  }

 private:
  // What is due because the countdown of an allocation reached zero.
  struct Due {
    // Not from the thread's cache.
    enum class Apart : uint8_t { no, past, sample } apart = Apart::no;
    bool recheck = false;
  };
  void want_worker();  // errno stays
  ThreadCache* take_back(CacheSlot& slot, ThreadCache* adopted);
  ThreadCache* adopt(CacheSlot& slot, ThreadCache*& adopted);
  Due count(ThreadCache* cache, const Request& request);
  Due tick(ThreadCache* cache);
  int64_t interval_or_never(ThreadCache* cache, bool on, uint64_t mean);
  Counting counts_now() const;
  int64_t bytes_to_count(ThreadCache* cache);
  void look_at_growth();
  void settle(ThreadCache& cache, const CallSite& site, int size_class,
              const ContextResolver::Answer& answer, Placement::Choice* choice);
  Placement::Choice choose(ThreadCache* cache, const Request& request, bool recheck);
  void* take(ThreadCache* cache, const Request& request, PageGroup group);
  void* take_slot(ThreadCache* cache, int bin);
  void make_room(ThreadCache* cache);
  void ask_all_threads(Nanos now);
  void* take_past(ThreadCache* cache, const Request& request, PageGroup group);
  void* take_whole(ThreadCache* cache, const Request& request, PageGroup group);
  void* take_sampled(const Request& request, PageGroup group);
  size_t usable_of_sample(const void* p, const Span* span);
  // Whether the first object of a context is to be sampled now: there are not too many such.
  bool may_sample_first();
  enum class Sample : uint8_t { no, due, first };
  void* allocate_apart(ThreadCache* cache, const Request& request, const Placement::Choice& choice,
                       Sample sample);
  void record_sample(ThreadCache* cache, const void* p, const Request& request,
                     const Placement::Choice& choice, bool first);
  Placement::Choice foresee(ThreadCache* cache, const Request& request,
                            const Placement::Choice& chosen);
  // For samples at least.
  bool predicts() const {
    return placement_on.load(std::memory_order_relaxed) || foresees.load(std::memory_order_relaxed);
  }
  bool time_lookup(const ThreadCache& cache, const Request& request, Nanos* price);
  void count_prediction(const ThreadCache& cache, const Request& request, const StackTrace& trace,
                        const Placement::Choice& choice, bool first);
  // How many objects it stands for.
  double weight_of_sample(size_t size, bool first) const;
  void note_sampled_free(ThreadCache* cache, const void* p);
  void give(ThreadCache* cache, void* p, Span* span);
  void* put_slot(ThreadCache* cache, int bin, void* p);
  bool end_hardened(ThreadCache* cache, void** p, Span** span, size_t given);
  void* resize_sampled(Span* span, size_t size);
  void report_double_free(const void* p);

  void keep_house(Nanos now);
  void note_load(Nanos now, Nanos since);
  void look_at_outlivers(Nanos now, Nanos since);
  bool hurries();
  void give_memory_back(Nanos now);
  void break_pages(Nanos now);
  size_t count_breaking(const Breaking& done);
  void count_plan();
  void look_at_holds(Nanos now);
  void measure_fetch(Nanos now);
  void look_at_limits(Nanos now);
  void look_at_caches(Nanos now);
  Nanos release_delay() const;
  bool empty_idle_caches(Nanos now);
  bool prepare_claims();
  size_t empty_idle_caches_since(Nanos before, Nanos now, bool penalty, bool* more);
  Nanos answer_call();
  // Also a heap that has shrunk: what idle threads cache may pin all that is left of it.
  bool was_large() const { return heap.pages().acquired() >= kFewPages; }
  bool may_claim() const;
  void flush_and_return(ThreadCache* cache);
  void leave_to_its_thread(ThreadCache* cache, Nanos now);
  Nanos next_sleep(Nanos now, bool busy, bool idle_threads) const;

  ReleasePlan plan_;
  HoldTime hold_empty_, hold_mappings_;
  BreakPatience patience_;
  size_t mended_ = 0;  // pages, since the last step
  Nanos fetch_time_ = FetchWork().fetch;
  size_t refetched_ = 0;  // pages, when that was measured last
  Nanos measured_{};
  Nanos empty_for_{};  // how long empty pages and freed mappings are held; 0: not known yet
  Nanos mappings_for_{};
  Pressure pressure_;
  size_t given_back_ = 0;  // bytes of whole pages since the plan was asked last
  bool more_to_release_ = false;
  Nanos last_house_{};
  Nanos fills_until_{};
  size_t most_live_ = 0;   // Heap::note_most_live
  bool has_left_ = false;  // spans of other groups, where nothing is placed by lifetime
  Nanos last_change_{};    // of the page heap's level, as seen by the steps
  size_t level_then_ = 0;  // bytes used
  Nanos last_busy_{};
  Nanos last_break_{};
  bool more_to_break_ = false;  // at a limit
  Nanos last_sleep_ = kShortSleep;
  CacheBypass bypass_;
  std::atomic<uint32_t> bypasses_{0};  // of a thread, until the next housekeeping
  std::atomic<bool> bypasses_used_up_{false};
  std::atomic<bool> small_caches_{false};
  std::atomic<bool> dozing_{false};
  // When a thread asked all to empty their caches, and the worker was called for those that sleep;
  // 0: it was not, or came.
  std::atomic<int64_t> asked_at_{0};
  Nanos next_step_{};                   // when it would have come by itself
  bool is_prepared_ = false;            // to claim them
  std::atomic<size_t> sample_from_{0};  // bytes held; 0: samples do not begin by themselves
  std::atomic<uint64_t> interval_then_{0};
  std::atomic<int64_t> firsts_until_{0};  // ns: when the room for first samples is full again
};

}  // namespace llamalloc
