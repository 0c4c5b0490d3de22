// SPDX-License-Identifier: Apache-2.0
#include "sim/product_policy.h"

namespace llamalloc::sim {

void SimWorld::report_misuse(const void* p, const Span*, const char* what) {
  print_line("simulated object %p: %s", p, what);
  CHECK(false);
}

// What the worker and the fast path do with a prediction.
Placement::Choice SimWorld::choose(ThreadCache& cache, const llamalloc::Request& request, bool) {
  if (stacks != nullptr) return choose_learned(cache, request);
  if (context >= said_.size()) said_.resize(context + size_t{1}, kNothing);
  const uint64_t key = PredictionCache::site_key({context + uintptr_t{1}, 0}, 0);
  llamalloc::Prediction known = placement_.cache().find(key);
  if (!known.found || said_[context] != static_cast<uint8_t>(predicted)) {
    said_[context] = static_cast<uint8_t>(predicted);
    placement_.publish(key, 0, predicted, false);
    known = {.lifetime = predicted, .group = group_of(predicted)};
  }
  return {.key = key, .lifetime = known.lifetime, .group = known.group, .known = true};
}

Placement::Choice SimWorld::choose_learned(ThreadCache& cache, const llamalloc::Request& request) {
  cache.own_stack = stacks->bounds(stack);
  const Placement::Choice choice = engine->choose_known(
      cache, request, [&] { return stacks->code(stack); },
      [&](StackTrace* trace) { stacks->unwind(stack, trace); });
  chosen = choice.lifetime;
  return choice;
}

std::unique_ptr<ProductPolicy> ProductPolicy::make() {
  std::unique_ptr<ProductPolicy> made(new ProductPolicy);
  return made->pages_.open() ? std::move(made) : nullptr;
}

std::unique_ptr<ProductPolicy> ProductPolicy::make_learning(TraceInput& input,
                                                            const LearningOptions& options,
                                                            std::string* error) {
  std::unique_ptr<ProductPolicy> made = make();
  *error = "cannot reserve 9 TiB of address space; raise `ulimit -v`";
  if (made == nullptr) return nullptr;
  Engine& engine = made->engine_;
  engine.options = options.process;
  engine.apply_options();
  made->keep_ = options.keep;
  made->learning_ = std::make_unique<SimLearning>(engine, input);
  made->world_.engine = &engine;
  made->world_.stacks = &made->learning_->stacks();
  const bool kept = options.keep.empty() || made->learning_->may_keep(options.keep, error);
  return kept && made->learning_->open(options.state, error) ? std::move(made) : nullptr;
}

ProductPolicy::Thread& ProductPolicy::thread_of(uint32_t number) {
  if (number >= threads_.size()) threads_.resize(number + 1u);
  std::unique_ptr<Thread>& thread = threads_[number];
  if (thread == nullptr) thread = std::make_unique<Thread>(empty_.get());
  world_.thread = number;
  return *thread;
}

void ProductPolicy::end_thread(uint32_t number) {
  if (number >= threads_.size() || threads_[number] == nullptr) return;
  engine_.end_thread(threads_[number]->slot, threads_[number]->cache);
  threads_[number].reset();
}

// With the program's first allocation, or the first that is given a class.
void ProductPolicy::start_worker(Nanos now) {
  predicting_ = true;
  engine_.foresees = learning_ == nullptr;
  gate().start(now);
  engine_.has_worker = true;
  next_step_ = now + delay_;
}

char* ProductPolicy::place(const Request& request, bool grows) {
  world_.stack = request.stack;
  world_.chosen = LifetimeClass::mixed;
  const bool predicts = learning_ != nullptr || group_of(request.lifetime) != PageGroup::unknown;
  if (predicts && !predicting_) start_worker(request.now);
  world_.context = request.context;
  world_.predicted = request.lifetime;
  Thread& thread = thread_of(request.thread);
  void* p =
      engine_.allocate(engine_.own_cache(thread.slot, thread.cache),
                       {.size = request.size,
                        .site = learning_ ? learning_->stacks().site(request.stack) : CallSite{},
                        .alignment = request.alignment(),
                        .grows = grows});
  if (p == nullptr) return nullptr;
  rounding_ += taken_for(*engine_.heap.find(p)) - request.size;
  return static_cast<char*>(p);
}

uint64_t ProductPolicy::allocate(const Request& request) {
  pages_.time = request.now;
  const char* p = place(request, false);
  if (world_.called) call_worker(request.now);
  return p ? pages_.offset_of(p) : kNoAddress;
}

void ProductPolicy::free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) {
  pages_.time = now;
  char* p = pages_.at(address);
  Span* span = engine_.heap.find(p);
  CHECK(span != nullptr);
  rounding_ -= taken_for(*span) - bytes;
  Thread& of = thread_of(thread);
  engine_.free(of.slot, of.cache, p, span, kUnknownSize);
  call_worker(now);
}

void ProductPolicy::call_worker(Nanos now) {
  const bool starts = world_.wanted || world_.wanted_for_idle || world_.called;
  if (starts && !engine_.has_worker.exchange(true))
    next_step_ = now + delay_;
  else if (world_.called || (world_.wanted && engine_.stop_dozing()))
    next_step_ = now;
  world_.wanted = world_.wanted_for_idle = world_.called = false;
}

// Nothing is copied: no object has memory.
uint64_t ProductPolicy::resize(uint64_t address, uint64_t bytes, const Request& request) {
  pages_.time = request.now;
  char* p = pages_.at(address);
  Span* span = engine_.heap.find(p);
  CHECK(span != nullptr);
  const uint64_t before = taken_for(*span);
  bool moves = false;
  const void* resized = engine_.resize(p, span, request.size, [&](size_t have) -> void* {
    moves = true;
    void* moved = place(request, may_grow_again(have, request.size));
    if (moved != nullptr) free(address, bytes, request.thread, request.now);
    return moved;
  });
  if (resized == nullptr) return kNoAddress;
  if (!moves) rounding_ += taken_for(*span) - request.size - (before - bytes);
  return pages_.offset_of(resized);
}

void ProductPolicy::advance(Nanos now) {
  pages_.time = now;
  if (predicting_) gate().work(now);
  const bool busy = engine_.profiler.on() || engine_.predictions_on;
  next_step_ = now + engine_.step(now, busy);
}

ContextResolver::Answer ProductPolicy::known(uint32_t stack, uint64_t bytes) {
  TraceStacks& stacks = learning_->stacks();
  return engine_.known_contexts.resolve(stacks.site(stack).return_address, stacks.code(stack),
                                        bytes, predictions_->sites,
                                        [&](StackTrace* trace) { stacks.unwind(stack, trace); });
}

std::vector<GateNote> ProductPolicy::gate_notes() const {
  return learning_ ? learning_->notes() : gate_.notes();
}

bool ProductPolicy::finish(Nanos now, std::string* error) {
  pages_.time = now;
  return learning_ == nullptr || keep_.empty() || learning_->write(keep_, now, error);
}

Losses ProductPolicy::losses() {
  Losses losses;
  Heap& heap = engine_.heap;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts counts = heap.count(static_cast<PageGroup>(g));
    losses.free_slots += counts.free_slots;
    losses.free_blocks += counts.free_blocks;
  }
  losses.rounding = rounding_;
  losses.empty_pages = heap.pages().counts().empty_backed * kHugePageSize +
                       DirectSpace::backed(heap.direct().kept_bytes());
  losses.thread_caches = heap.depot_bytes() + heap.shelved_bytes();
  for (const auto& thread : threads_)
    if (thread != nullptr && thread->cache != nullptr)
      losses.thread_caches += thread->cache->magazines.cached_bytes();
  // Last: what was looked at counts as resident.
  losses.metadata = engine_.arena.resident_bytes() + heap.map_bytes();
  return losses;
}

ReleaseReport ProductPolicy::releases() {
  const Counters& counters = engine_.counters;
  PageHeap& pages = engine_.heap.pages();
  const auto range = pages.demand().range(pages_.time, DemandSeries::kFragmentationWindow);
  return {.realized = range.least_free,
          .average = range.average_free,
          .pages_broken = counters.get(Stat::pages_broken),
          .bytes_broken = counters.get(Stat::bytes_broken),
          .mended = counters.get(Stat::pages_mended),
          .refetched = pages.counts().refetched,
          .skipped = counters.get(Stat::release_skipped),
          .right = counters.get(Stat::release_skipped_right),
          .wrong = counters.get(Stat::release_skipped_wrong),
          .broken_by_rate = counters.get(Stat::broken_by_rate),
          .hold_empty = counters.get(Stat::hold_empty),
          .hold_mappings = counters.get(Stat::hold_mappings)};
}

// In a process, a fault in the options is no reason to stop.
bool ProductPolicy::configure(const std::string& options, std::string* error) {
  static std::string faults;
  faults.clear();
  engine_.options.parse(options.c_str(), false, [](const char* fault) {
    faults += faults.empty() ? "" : "; ";
    faults += fault;
  });
  *error = faults;
  engine_.apply_options();
  return faults.empty();
}

}  // namespace llamalloc::sim
