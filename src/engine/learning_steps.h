// SPDX-License-Identifier: Apache-2.0
// Learning as a part of the background work: when samples begin, the learner's rounds, the gate's
// steps, and what follows from them for the engine. With a model and without learning there are no
// rounds, and what the samples say of the model (learning/trust.h) takes the place of what is
// learned. A process (runtime/learning.h) and a simulation (sim/sim_learning.h) drive it; threads,
// locks and files are theirs.
//
//   open --> begin --> run.take_in(state) --> step, whenever the worker is awake --> round, at the
//   end
#pragma once

#include "engine/engine.h"
#include "learning/learning_run.h"

namespace llamalloc {

class LearningSteps {
 public:
  explicit LearningSteps(Engine& engine) : engine_(engine) {}

  // Where the process learns, too. False: no memory.
  bool open() { return run.open(engine_.arena) && engine_.known_contexts.open(engine_.arena); }
  void begin(Nanos now) {
    run.begin(now);
    looked_ = now;
  }

  // Samples begin as soon as they are worth it. At the start, and by step. others: something else
  // wants samples, too, and started them, or somebody switched them on or off: from now on for
  // good.
  void sample_if_worth_it(bool others);
  // Else the option `segregate` does, and nothing is judged.
  bool gate_decides() const { return engine_.options.segregate == Segregate::automatic; }
  // What a model proves counts where the gate decides.
  void take_evidence(const GateKept& of_model) {
    if (gate_decides()) run.take_evidence(of_model);
  }
  // As Gate::describe(), or what the option says.
  void describe(char* out, size_t room, bool is_kept = true) const;
  Placing placing() const;
  // Whether objects are to be placed by lifetime.
  bool places() const { return segregates(engine_.options.segregate.value, run.gate().is_on()); }
  // make_round(now): calls round(now), and does what the caller has to do before and after it.
  template <typename MakeRound>
  void step(Nanos now, MakeRound&& make_round) {
    sample_if_worth_it(false);
    if (run.is_round_due(now)) make_round(now);
    step_gate(now, false);
  }
  // At the end of the process: what came since the last round and the last step counts, too.
  template <typename MakeRound>
  void finish(Nanos now, MakeRound&& make_round) {
    make_round(now);
    step_gate(now, true);
  }
  void round(Nanos now);

  LearningRun run;

 private:
  void step_gate(Nanos now, bool last);
  bool prepares(Nanos now);
  bool explores(Nanos now);
  void ask_gate(Nanos now, bool last);

  Engine& engine_;
  Trust::Figures trust_;
  LookupTime lookups_;
  Nanos looked_{};           // when that was
  Nanos placed_{};           // since when objects are placed by lifetime; 0: they are not
  Nanos sought_{};           // since when contexts are sought before a trial; 0: they are not
  Nanos back_{};             // when the load came back since then
  Nanos doubtful_{};         // until then ages say nothing: the process stood still
  bool samples_ = false;     // has begun to
  bool shares_ = false;      // with others
  bool has_placed_ = false;  // objects by lifetime, in this run
  bool prepares_ = false;    // a trial: contexts are explored, nothing is placed by them
};

}  // namespace llamalloc
