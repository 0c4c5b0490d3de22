// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_learning.h"

#include "state_file/state_file.h"

namespace llamalloc::sim {

// As a process does.
ReadStatus SimLearning::read(const std::string& path, LearnedState* out, std::string* error) const {
  const TraceProgram program = input_.program();
  char text[512] = {};
  const ReadStatus status = read_learned_state(path.c_str(), {program.build, program.name.c_str()},
                                               system_pages, out, text, sizeof(text));
  *error = text;
  return status;
}

bool SimLearning::open(const std::string& state, std::string* error) {
  if (!steps_.open()) {
    *error = "no memory for the tables of what is learned";
    return false;
  }
  engine_.profiler.bound_contexts(Learner::kMostContexts, Learner::kContextsFreely);
  const TraceProgram program = input_.program();
  file_.header = header_for({program.build, program.name.c_str()});
  if (state.empty()) return true;
  const ReadStatus status = read(state, &file_, error);
  if (!is_usable(status)) {
    if (status == ReadStatus::absent) *error = state + ": no such file";
    *error = error->substr(0, error->find("; it is "));  // what a process does with the file then
    return false;
  }
  run_.take_in(file_, LearningRun::gate_from(status, status == ReadStatus::ok),
               engine_.known_contexts.tree(), system_pages);
  return true;
}

bool SimLearning::may_keep(const std::string& path, std::string* error) const {
  LearnedState there;
  const ReadStatus status = read(path, &there, error);
  there.give_back();
  return may_replace(status);
}

// ----- The gate -----

void SimGate::start(Nanos now) {
  started_ = now;
  steps_.begin(now);
  if (engine_.foresees && engine_.options.segregate == Segregate::always)
    engine_.start_sampling(engine_.options.interval(), now);
  steps_.sample_if_worth_it(engine_.profiler.on());
  engine_.start_placing(steps_.places());
  note(now);
}

void SimGate::work(Nanos now) {
  steps_.step(now, [this](Nanos at) { steps_.round(at); });
  note(now);
}

// What is new of its decision.
void SimGate::note(Nanos now) {
  const Gate& gate = steps_.run.gate();
  GateNote next{static_cast<uint64_t>((now - started_).n),
                engine_.placement_on,
                gate.is_late(),
                gate.kept().verdict,
                {}};
  if (!notes_.empty() && notes_.back().placing == next.placing && notes_.back().late == next.late &&
      notes_.back().verdict == next.verdict)
    return;
  char text[Gate::kSentence];
  steps_.describe(text, sizeof(text));
  next.says = text;
  notes_.push_back(next);
}

// ----- Keeping -----

bool SimLearning::write(const std::string& path, Nanos now, std::string* error) {
  steps_.finish(now, [this](Nanos at) { steps_.round(at); });
  // A process looks for what holds for its modules.
  const LearningRun::Build build{input_.program().build, 0};
  char text[512] = "no memory for the state";
  const bool written = run_.add_to(&file_, ReadStatus::absent, build, system_pages) &&
                       write_learned_state(path.c_str(), file_.header, file_.nodes.view(),
                                           file_.frames.view(), system_pages, text, sizeof(text));
  if (written)
    run_.note_saved();
  else
    *error = text;
  return written;
}

}  // namespace llamalloc::sim
