// SPDX-License-Identifier: Apache-2.0
// The worker's part in prediction: unwind the copied stack, name the frames, evaluate the model,
// publish the class, and find out which call sites are wrappers. When a module is unloaded, all
// that was learned about its code is dropped. Until the worker's next round, a new module at the
// same address may get the old module's classes.
#pragma once

#include "os/module_watch.h"
#include "os/symbols.h"
#include "policy/placement.h"
#include "predict/evaluator.h"
#include "predict/miss_queue.h"

namespace llamalloc {

class ContextWorker {
 public:
  // False: the model cannot be used; `error` says why in one line.
  bool load(const char* path, MetadataArena& arena, char* error, size_t room);
  bool loaded() const { return evaluator_ != nullptr; }

  MissQueue& queue() { return queue_; }
  // Evaluates what is waiting; returns how many contexts.
  int work(Placement& placement, Symboliser& symboliser, Counters& counters, PageSource& clock);

 private:
  static constexpr int kNamedFrames = 32;  // as many as the model reads
  static constexpr size_t kNameRoom = 512;
  static constexpr size_t kCallers = 4096;
  static constexpr size_t kVerdicts = 4096;

  void forget_unloaded(Placement& placement, Counters& counters);
  Placement::Marks marks_of(const StackTrace& trace) const;
  LifetimeClass evaluate(const StackTrace& trace, size_t size, Symboliser& symboliser);
  LifetimeClass ask_model(const StackTrace& trace, size_t size, Symboliser& symboliser);
  void find_wrappers(const StackTrace& trace, SiteTable& sites);

  struct Caller {
    uintptr_t site;
    uintptr_t first_caller;
  };
  // The model's answer for a context, so that a recheck need not evaluate it again. Direct-mapped.
  struct Verdict {
    uint64_t context;
    LifetimeClass lifetime;
  };
  Evaluator* evaluator_ = nullptr;
  Verdict* verdicts_ = nullptr;
  MissQueue queue_;
  ModuleWatch modules_;
  Caller* callers_ = nullptr;  // direct-mapped: the first caller seen of each site
  char (*names_)[kNameRoom] = nullptr;
};

}  // namespace llamalloc
