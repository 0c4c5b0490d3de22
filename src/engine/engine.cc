// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>

#include "placement/hint.h"
#include "profile/sampler.h"

namespace llamalloc {

void Engine::report_double_free(const void* p) {
  world.report_misuse(p, heap.find(p), "freed twice (found when it returned to the heap)");
}

void Engine::apply_options() {
  heap.pages().use_huge_pages(options.hugepages);
  heap.pages().limit_growth(options.hard_limit);
  heap.pages().share_pages_below(options.share_pages_below / kHugePageSize);
}

[[gnu::cold, gnu::noinline]] void Engine::want_worker() {
  const ErrnoKeeper keep;
  world.want_worker();
}

void Engine::flush_cache(ThreadCache* cache) {
  if (const void* twice = cache->magazines.flush(heap)) report_double_free(twice);
}

void* Engine::allocate(ThreadCache* cache, const Request& request) {
  const Due due = count(cache, request);
  if (__builtin_expect(
          request.size > kLargestSize / 2 && is_absurd(request.size, request.alignment), 0))
    return nullptr;
  const Placement::Choice choice = choose(cache, request, due.recheck);
  if (__builtin_expect(choice.first && may_sample_first(), 0))
    return allocate_apart(cache, request, choice, Sample::first);
  if (__builtin_expect(due.apart != Due::Apart::no || hardening.is_on(), 0)) {
    if (due.apart == Due::Apart::past && !hardening.is_on())
      return take_past(cache, request, choice.group);
    const bool sampled = due.apart == Due::Apart::sample;
    return allocate_apart(cache, request, choice, sampled ? Sample::due : Sample::no);
  }
  return take(cache, request, choice.group);
}

bool Engine::place_by_lifetime(Placing how) {
  const bool on = how >= Placing::late, asked = how >= Placing::explored;
  const bool changes = placement_on.load(std::memory_order_relaxed) != on;
  heap.pages().take_over_pages(how != Placing::sure);
  if (!changes && predictions_on.load(std::memory_order_relaxed) == asked) return false;
  placement.part(how == Placing::explored ? Parts::nothing
                 : how == Placing::late   ? Parts::what_stays
                                          : Parts::all);
  placement.cache().clear();
  if (changes) {
    heap.pages().fill_unknown_pages(how != Placing::late);
    heap.pages().fill_left_over(how == Placing::rests);
    heap.pages().note_most_used(0);
    heap.note_most_live(0);
    fills_until_ = system.now() + kFillsLeftOver;
    if (on) heap.keep_spans();
    placement_on.store(on, std::memory_order_relaxed);
  }
  predictions_on.store(asked, std::memory_order_release);
  threads.wake_all();
  if (!changes) return true;
  if (how == Placing::given_up) heap.join_pages();
  has_left_ = !on && heap.join_spans();
  return true;
}

bool Engine::explore(bool on) {
  const bool changes = explores.exchange(on, std::memory_order_relaxed) != on;
  if (changes) placement.cache().clear();
  return changes;
}

void Engine::settle(ThreadCache& cache, const CallSite& site, int size_class,
                    const ContextResolver::Answer& answer, Placement::Choice* choice) {
  LifetimeClass lifetime = answer.lifetime;
  if (answer.varies) placement.cache().decided.clear();
  if (!answer.whole && dies_soon(lifetime)) lifetime = LifetimeClass::mixed;
  // With the callers that the answer depends on, which it may not have had before.
  const uint64_t key = placement.cache().context_key(site, cache.own_stack, size_class);
  const bool explored =
      answer.learned && dies_soon(lifetime) && explores.load(std::memory_order_relaxed);
  if (answer.learned && answer.whole)
    *choice = placement.settle_learned_path(answer.path, size_class, key, lifetime, explored);
  else if (answer.by_site && !answer.learned)
    *choice = placement.settle_models_site(site, size_class, key, lifetime);
  else
    *choice = placement.settle(key, lifetime);
  choice->first = explored;
}

Placement::Choice Engine::choose(ThreadCache* cache, const Request& request, bool recheck) {
  Placement::Choice choice;
  if (cache != nullptr && cache->predicting && !cache->busy)
    choice = world.choose(*cache, request, recheck);
  choice.group = group_with_hint(choice, request.hotness);
  return choice;
}

bool Engine::may_sample_first() {
  if (!known_contexts.is_open() || !profiler.on()) return false;
  const int64_t now = system.now().n;
  int64_t until = firsts_until_.load(std::memory_order_relaxed);
  const int64_t next = std::max(until, now - kFirstsAtOnce * kFirstsRest.n) + kFirstsRest.n;
  return next <= now &&
         firsts_until_.compare_exchange_strong(until, next, std::memory_order_relaxed);
}

void* Engine::take(ThreadCache* cache, const Request& request, PageGroup group) {
  const int size_class =
      request.grows ? kSizeClasses : class_serving(request.size, request.alignment);
  if (__builtin_expect(size_class == kSizeClasses, 0)) return take_whole(cache, request, group);
  const int bin = bin_of(group, size_class, false);
  return __builtin_expect(cache != nullptr, 1) ? take_slot(cache, bin) : heap.take_one(bin);
}

void* Engine::take_slot(ThreadCache* cache, int bin) {
  Magazine& magazine = cache->magazines.bins[bin];
  if (!magazine.is_empty()) return magazine.pop();
  if (__builtin_expect(heap.wants_caches(), 0)) make_room(cache);
  return cache->magazines.refill(heap, arena, bin, threads.in_use());
}

// Who sleeps does not answer.
[[gnu::cold]] void Engine::ask_all_threads(Nanos now) {
  threads.request_housekeeping(now);
  if (!options.release_sleepers) return;
  int64_t none = 0;
  asked_at_.compare_exchange_strong(none, now.n, std::memory_order_release);
  const ErrnoKeeper keep;
  world.call_worker();
}

[[gnu::cold, gnu::noinline]] void Engine::make_room(ThreadCache* cache) {
  if (!heap.begin_room()) return;
  const Heap::Filling filling = heap.filling();
  if (cache != nullptr) flush_cache(cache);
  if (threads.in_use() > 1) ask_all_threads(system.now());
  if (const void* twice = heap.make_room(filling)) report_double_free(twice);
}

// Not from the thread's cache (CacheBypass), unless the heap has no slot left, or the thread would
// wait for others.
[[gnu::cold, gnu::noinline]] void* Engine::take_past(ThreadCache* cache, const Request& request,
                                                     PageGroup group) {
  if (cache->magazines.is_contended()) return take(cache, request, group);
  if (--cache->magazines.bypasses == 0) bypasses_used_up_.store(true, std::memory_order_relaxed);
  const int size_class = class_serving(request.size, request.alignment);
  if (!request.grows && size_class < kSizeClasses)
    if (void* p = heap.take_one(bin_of(group, size_class, false))) return p;
  return take(cache, request, group);
}

// A run or a mapping.
void* Engine::take_whole(ThreadCache* cache, const Request& request, PageGroup group) {
  const size_t size = request.size == 0 ? 1 : request.size;  // an address of its own
  Span* span;
  if (request.grows) {
    span = heap.allocate_growing(size, group);
  } else {
    if (fits_run(size, request.alignment) && cache != nullptr) {
      const uint32_t alignment = Blocks::covering(request.alignment).n;
      span = cache->magazines.take_kept_run(heap, blocks_of_run(size), group, alignment,
                                            threads.in_use());
      if (span != nullptr) return span->base;
      if (heap.may_scatter_runs()) heap.want_caches();
      if (__builtin_expect(heap.wants_caches(), 0)) make_room(cache);
    }
    span = heap.allocate(size, request.alignment, group, false);
  }
  if (__builtin_expect(heap.wants_caches(), 0)) make_room(cache);
  return span ? span->base : nullptr;
}

// One object in a span of samples; its free comes to deallocate.
void* Engine::take_sampled(const Request& request, PageGroup group) {
  const int size_class = class_serving(request.size, request.alignment);
  if (size_class < kSizeClasses) {
    const int of_sample = class_of_sample(size_class);
    return heap.take_one(bin_of(group, of_sample, true));
  }
  Span* span = heap.allocate(request.size == 0 ? 1 : request.size, request.alignment, group, true);
  return span ? span->base : nullptr;
}

// In a span that no thread caches: hardened, sampled, or both.
[[gnu::cold, gnu::noinline]] void* Engine::allocate_apart(ThreadCache* cache,
                                                          const Request& request,
                                                          const Placement::Choice& choice,
                                                          Sample sample) {
  void* p = hardening.is_on() ? hardening.take(request.size, request.alignment, choice.group)
                              : take_sampled(request, choice.group);
  if (p != nullptr && sample != Sample::no)
    record_sample(cache, p, request, choice, sample == Sample::first);
  return p;
}

// As the fast path does it: what it loads is in the processor's caches, or is not, as there. False:
// the clock is too slow for it.
[[gnu::noinline]] bool Engine::time_lookup(const ThreadCache& cache, const Request& request,
                                           Nanos* price) {
  const int size_class = key_class_of(request.size);
  const Nanos before = system.now(), begin = system.now();
  const bool known = placement.look(request.site, cache.own_stack, size_class);
  asm volatile("" : : "r"(known) : "memory");
  const Nanos end = system.now();
  const Nanos clock = begin - before;
  *price = timed_lookup(end - begin - clock);
  return clock <= kMostOfClock;
}

// A sampled allocation stands for many: how often the cache knew the context, and what it takes to
// find it.
void Engine::count_prediction(const ThreadCache& cache, const Request& request,
                              const StackTrace& trace, const Placement::Choice& choice,
                              bool first) {
  const auto allocations = static_cast<uint64_t>(weight_of_sample(request.size, first));
  if (predicts()) counters.add(choice.known ? Stat::predict_hits : Stat::predict_cold, allocations);
  if (!predicts() && !known_contexts.is_open()) return;
  Nanos price;
  if (!cache.predicting || !time_lookup(cache, request, &price)) {
    const bool models_site = choice.known && choice.key != 0 && !choice.is_of_context();
    price = price_of_lookup(models_site ? 0 : known_contexts.callers_asked(trace, request.size));
  }
  if (cache.predicting && choice.slow) price = price + kPriceOfMiss;
  counters.add(Stat::predict_lookup_nanos, allocations * static_cast<uint64_t>(price.n));
}

double Engine::weight_of_sample(size_t size, bool first) const {
  return first ? 1 : sample_weight(size, static_cast<double>(profiler.interval()));
}

// As the object would be placed if the gate were open.
[[gnu::cold, gnu::noinline]] Placement::Choice Engine::foresee(ThreadCache* cache,
                                                               const Request& request,
                                                               const Placement::Choice& chosen) {
  const bool asks = !cache->predicting && !cache->busy && foresees.load(std::memory_order_relaxed);
  return asks ? world.choose(*cache, request, false) : chosen;
}

[[gnu::cold]] void Engine::record_sample(ThreadCache* cache, const void* p, const Request& request,
                                         const Placement::Choice& placed, bool first) {
  const Placement::Choice choice = foresee(cache, request, placed);
  cache->busy = 1;
  StackTrace trace;
  world.trace_stack(request.site, &trace);
  if (trace.truncated) counters.add(Stat::stacks_truncated);
  count_prediction(*cache, request, trace, choice, first);
  if (profiler.on_alloc(p, request.size, trace, choice.key, choice.lifetime, system.now(),
                        cache->thread_id, world.processor(), cache->tag, first))
    world.note_sample(p, request.size, weight_of_sample(request.size, first));
  cache->busy = 0;
}

void Engine::note_sampled_free(ThreadCache* cache, const void* p) {
  const uint32_t thread = cache ? cache->thread_id : 0;
  const auto freed = profiler.on_free(p, system.now(), thread, world.processor());
  if (!freed.found) return;
  world.note_sample_end(p);
  if (freed.size <= kRunMax) trust.freed(freed.predicted, freed.lifetime, freed.bytes);
  if (freed.context_key != 0) placement.observe(freed.context_key, freed.predicted, freed.lifetime);
}

// Whether anything is left to do with it: *p and *span are then what goes to the heap.
[[gnu::cold]] bool Engine::end_hardened(ThreadCache* cache, void** p, Span** span, size_t given) {
  if (!hardening.end(*p, *span, given)) return false;
  note_sampled_free(cache, *p);
  *p = hardening.hold_back(*p, *span);
  if (*p != nullptr) *span = heap.find(*p);
  return *p != nullptr;
}

void* Engine::put_slot(ThreadCache* cache, int bin, void* p) {
  Magazine& magazine = cache->magazines.bins[bin];
  if (magazine.base != nullptr && magazine.top[-1] == p) return p;
  if (magazine.is_full()) return cache->magazines.spill(heap, arena, bin, p, threads.in_use());
  magazine.push(p);
  return nullptr;
}

void Engine::give(ThreadCache* cache, void* p, Span* span) {
  void* twice = nullptr;
  const int bin = span->local_bin();
  if (span->kind != SpanKind::slots)
    heap.deallocate(span);
  else if (cache == nullptr || bin == kNoLocalBin || hardening.is_on())
    twice = heap.give_one(p);
  else
    twice = put_slot(cache, bin, p);
  if (__builtin_expect(twice != nullptr, 0)) report_double_free(twice);
}

void Engine::deallocate(ThreadCache* cache, void* p, Span* span, size_t given) {
  bool to_heap = true;
  if (__builtin_expect(hardening.is_hardened(span), 0))
    to_heap = end_hardened(cache, &p, &span, given);
  else if (__builtin_expect(given != kUnknownSize && given > span->object_size(), 0))
    world.note_wrong_size(p, span, given);
  if (__builtin_expect(span != nullptr && span->sampled && !hardening.is_on(), 0))
    note_sampled_free(cache, p);
  if (to_heap) give(cache, p, span);
  if (heap.has_empty_pages())
    world.want_worker();
  else if (was_large())
    world.want_idle_caches_emptied();
}

// A sample dies with its age where the system moved it to. An object that was not recorded was not
// announced either.
[[gnu::cold, gnu::noinline]] void* Engine::resize_sampled(Span* span, size_t size) {
  const size_t old_size = span->object_size();
  if (profiler.weight_of_live(span->base) != 0) world.note_sample_end(span->base);
  profiler.on_leave(span->base, span);
  void* resized = heap.resize(span, size);
  profiler.on_arrive(span, span->base);
  if (resized != nullptr) profiler.on_resize(resized, size);
  const size_t now = resized != nullptr ? size : old_size;
  const double weight = profiler.weight_of_live(span->base);
  if (weight != 0) world.note_sample(span->base, now, weight);
  return resized;
}

[[gnu::cold]] size_t Engine::usable_of_sample(const void* p, const Span* span) {
  const size_t have = span->object_size();
  if (span->kind != SpanKind::slots) return have;
  const size_t asked = profiler.size_of_live(p);
  return asked < have ? std::min(have, usable_size_of(asked, 1)) : have;
}

void* Engine::resize_in_place(void* p, Span* span, size_t size) {
  const size_t have = usable_size(p, span);
  if (span->kind == SpanKind::slots) {
    if (!fits_in_place(have, size)) return nullptr;
    if (__builtin_expect(span->sampled, 0)) profiler.on_resize(p, size);
    return p;
  }
  if (fits_in_place(have, size) && span->fresh && size != have) span->fresh = false;
  return __builtin_expect(span->sampled, 0) ? resize_sampled(span, size) : heap.resize(span, size);
}

}  // namespace llamalloc
