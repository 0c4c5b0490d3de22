// SPDX-License-Identifier: Apache-2.0
// The worker's part in prediction: have the copied stack unwound, ask the model's tables, name the
// frames and evaluate the network where they do not know, publish the class, and find out which
// call sites are wrappers. When a module is unloaded, all that was learned about its code is
// dropped. Until the worker's next round, a new module at the same address may get the old module's
// classes.
#pragma once

#include "placement/context_resolver.h"
#include "placement/loaded_code.h"
#include "placement/placement.h"
#include "predict/evaluator.h"
#include "predict/frame_name_key.h"
#include "predict/miss_queue.h"

namespace llamalloc {

class ContextWorker {
 public:
  // Which program runs, and where its model came from (for messages).
  struct Origin {
    const char* path;
    const char* program;  // name of the file
    uint64_t build;       // hash_build_id
  };
  // False: the model cannot be used, and may be closed; `error` says why in one line. So it does
  // where the model is of another build of the program.
  bool open(Evaluator& evaluator, LoadedCode& code, const Origin& origin, MetadataArena& arena,
            char* error, size_t room);
  bool loaded() const { return evaluator_ != nullptr; }
  // Of the model. After open.
  const ModelEvidence& evidence() const { return evaluator_->evidence(); }
  // After open: lets the resolver answer from the model's tables, by name only with `names`. False:
  // no memory.
  bool share_tables(ContextResolver& resolver, KnownNames* names, MetadataArena& arena);

  MissQueue& queue() { return queue_; }
  // Contexts whose names could not be read for want of a descriptor or memory have no class, and
  // are new again after that pause. With more than so many at a time all contexts are.
  static constexpr Nanos kStarvedPause = Nanos::seconds(10);
  static constexpr uint32_t kMostStarved = 256;
  // Evaluates what is waiting; returns how many contexts.
  int work(Placement& placement, Counters& counters, PageSource& clock);

 private:
  static constexpr int kNamedFrames = ModelEvidence::kNamedFrames;
  static constexpr size_t kNameRoom = kMaxNameBytes + 1;
  static constexpr size_t kCallers = 4096;
  static constexpr size_t kVerdicts = 4096;

  void forget_unloaded(Placement& placement, Counters& counters);
  void forget_starved(Placement& placement, PageSource& clock);
  void note_starved(uint64_t key, Nanos now);
  Placement::Marks marks_of(const StackTrace& trace) const;
  bool make_tables(MetadataArena& arena);
  LifetimeClass evaluate(const StackTrace& trace, size_t size);
  LifetimeClass ask_evidence(const StackTrace& trace, size_t size);
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
  ContextResolver* resolver_ = nullptr;  // has the tables, too
  Verdict* verdicts_ = nullptr;
  MissQueue queue_;
  LoadedCode* code_ = nullptr;
  Caller* callers_ = nullptr;  // direct-mapped: the first caller seen of each site
  char (*names_)[kNameRoom] = nullptr;
  bool starved_ = false;        // the last answer lacks names
  uint32_t starved_count_ = 0;  // the keys of the first kMostStarved are kept
  uint64_t starved_keys_[kMostStarved] = {};
  Nanos starved_since_{};  // the first of them
};

}  // namespace llamalloc
