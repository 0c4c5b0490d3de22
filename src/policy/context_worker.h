// SPDX-License-Identifier: Apache-2.0
// The worker's part in prediction: unwind the copied stack, ask the model's tables, name the frames
// and evaluate the network where they do not know, publish the class, and find out which call sites
// are wrappers. When a module is unloaded, all that was learned about its code is dropped. Until
// the worker's next round, a new module at the same address may get the old module's classes.
#pragma once

#include "os/module_watch.h"
#include "os/symbols.h"
#include "policy/context_resolver.h"
#include "policy/placement.h"
#include "predict/evaluator.h"
#include "predict/miss_queue.h"

namespace llamalloc {

class ContextWorker {
 public:
  // False: the model cannot be used; `error` says why in one line. So it does where the model is of
  // another build of the program. program: name of the file; build: hash_build_id.
  bool load(const char* path, const char* program, uint64_t build, MetadataArena& arena,
            char* error, size_t room);
  bool loaded() const { return evaluator_ != nullptr; }
  // After load: lets the resolver answer from the model's exact table. False: no memory.
  bool share_exact(ContextResolver& resolver, MetadataArena& arena);

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
  LifetimeClass ask_evidence(const StackTrace& trace, size_t size, Symboliser& symboliser);
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
  ContextResolver* resolver_ = nullptr;  // has the exact table
  Verdict* verdicts_ = nullptr;
  MissQueue queue_;
  ModuleWatch modules_;
  Caller* callers_ = nullptr;  // direct-mapped: the first caller seen of each site
  char (*names_)[kNameRoom] = nullptr;
};

}  // namespace llamalloc
