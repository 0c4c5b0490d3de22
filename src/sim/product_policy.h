// SPDX-License-Identifier: Apache-2.0
// llamalloc in a simulation: the product's engine on SimPages, in virtual time. Each thread of the
// trace has a thread cache of the engine. The worker runs when step() says or when it is wanted.
//
//   predictor's class --published once a context--> prediction cache --> class of the allocation
//   sampled object outlives its class --> engine demotes the context, there
//
// So a context keeps a demoted class until the predictor itself says another one, which only an
// oracle and injected errors do.
//
// The gate decides whether objects are placed by these classes, as in a process with a model. With
// `segregate:always` they are.
//
// A policy that learns (sim_learning.h) is given no classes. It chooses them as a process does, by
// the stacks of the trace (Engine::choose_known).
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "sim/policy.h"
#include "sim/sim_learning.h"
#include "sim/sim_pages.h"

namespace llamalloc::sim {

// Only one thread runs at a time. So a barrier does nothing, and no cache is in use while the
// worker runs.
class SimWorld final : public World {
 public:
  explicit SimWorld(Placement& placement) : placement_(placement) {}

  Placement::Choice choose(ThreadCache&, const llamalloc::Request&, bool) override;
  // Without stacks: one frame, which stands for the context.
  void trace_stack(const CallSite&, StackTrace* out) override {
    if (stacks != nullptr) return stacks->unwind(stack, out);
    out->depth = 1;
    out->frames[0] = context + uintptr_t{1};
  }
  uint32_t processor() override { return 0; }
  void introduce_thread(ThreadCache& cache) override { cache.thread_id = cache.rng = thread + 1; }
  bool thread_exists(uint32_t) override { return true; }
  bool may_issue_barrier() override { return true; }
  void prepare_barrier() override {}
  bool issue_barrier() override { return true; }
  void want_worker() override { wanted = true; }
  void call_worker() override { called = true; }
  void want_idle_caches_emptied() override { wanted_for_idle = true; }
  void report_misuse(const void*, const Span*, const char* what) override;
  void note_wrong_size(const void*, const Span*, size_t) override {}

  Engine* engine = nullptr;  // both are set where the policy learns
  TraceStacks* stacks = nullptr;
  uint32_t thread = 0;  // the calling one
  // Of the next allocation.
  uint32_t stack = 0;
  uint32_t context = 0;
  LifetimeClass predicted = LifetimeClass::mixed;
  LifetimeClass chosen = LifetimeClass::mixed;  // of the last one, where the policy learns
  bool wanted = false;
  bool called = false;
  bool wanted_for_idle = false;

 private:
  Placement::Choice choose_learned(ThreadCache& cache, const llamalloc::Request& request);
  static constexpr uint8_t kNothing = kLifetimeClasses;

  Placement& placement_;
  std::vector<uint8_t> said_;  // by context: the class that was published
};

class ProductPolicy final : public Policy {
 public:
  // Null: no address space.
  static std::unique_ptr<ProductPolicy> make();
  // As make_learning_policy.
  static std::unique_ptr<ProductPolicy> make_learning(TraceInput& input,
                                                      const LearningOptions& options,
                                                      std::string* error);

  uint64_t allocate(const Request& request) override;
  void free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) override;
  uint64_t resize(uint64_t address, uint64_t bytes, const Request& request) override;
  void end_thread(uint32_t thread) override;
  void set_ticks(Nanos period, Nanos one) override {
    pages_.tick = period;
    pages_.a_tick = one;
  }
  void delay_work(Nanos by) override { delay_ = by; }
  void advance(Nanos now) override;
  Nanos next_work(Nanos) const override { return next_step_; }
  Losses losses() override;
  bool learns() const override { return learning_ != nullptr; }
  void take_evidence(const GateKept& evidence) override { gate_.take_evidence(evidence); }
  LifetimeClass chosen() const override { return world_.chosen; }
  // What an allocation there would be told, where the policy learns; nothing is placed by it.
  ContextResolver::Answer known(uint32_t stack, uint64_t bytes);
  std::vector<GateNote> gate_notes() const override;
  bool finish(Nanos now, std::string* error) override;
  ReleaseReport releases() override;
  bool configure(const std::string& options, std::string* error) override;
  bool is_consistent() override {
    return engine_.heap.is_consistent() && pages_.ledger.is_consistent();
  }
  PageLedger& ledger() override { return pages_.ledger; }
  const DirectSpace& direct() const override { return pages_.direct; }

  uint64_t count(Stat stat) const { return engine_.counters.get(stat); }
  uint64_t demotions() const { return count(Stat::demotions); }
  uint64_t promotions() const { return count(Stat::promotions); }
  uint64_t emptied_caches() const { return count(Stat::sleepers_emptied); }

 private:
  ProductPolicy() = default;
  struct Thread {
    explicit Thread(ThreadCache* empty) : slot(empty) {}
    CacheSlot slot;
    ThreadCache* cache = nullptr;  // adopted
  };
  Thread& thread_of(uint32_t number);
  void start_worker(Nanos now);
  SimGate& gate() { return learning_ ? *learning_ : gate_; }
  char* place(const Request& request, bool grows);
  void call_worker(Nanos now);
  static uint64_t taken_for(const Span& span) {
    return span.kind == SpanKind::direct ? DirectSpace::backed(span.bytes) : span.object_size();
  }

  SimPages pages_;
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  std::unique_ptr<PredictionCache> predictions_ = std::make_unique<PredictionCache>();
  std::unique_ptr<ThreadCache> empty_ = std::make_unique<ThreadCache>();
  SimWorld world_{engine_.placement};
  Engine engine_{pages_, *tables_, *predictions_, *empty_, world_};
  std::vector<std::unique_ptr<Thread>> threads_;  // by number; null: not begun, or ended
  Nanos next_step_ = Nanos::max();                // the worker starts when it is first wanted
  Nanos delay_{};                                 // and so much later
  bool predicting_ = false;  // it learns, or some object was given a class: a model is loaded
  uint64_t rounding_ = 0;
  SimGate gate_{engine_};                  // where it is given classes
  std::unique_ptr<SimLearning> learning_;  // null: it is given classes
  std::string keep_;
};

}  // namespace llamalloc::sim
