// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_learning.h"

#include "state_file/state_file.h"

namespace llamalloc::sim {

bool SimLearning::open(const std::string& state, std::string* error) {
  if (!run_.open(engine_.arena) || !engine_.known_contexts.open(engine_.arena)) {
    *error = "no memory for the tables of what is learned";
    return false;
  }
  const TraceProgram program = input_.program();
  file_.header = header_for({program.build, program.name.c_str()});
  if (state.empty()) return true;
  char text[512] = {};
  const ReadStatus status = read_learned_state(state.c_str(), {program.build, program.name.c_str()},
                                               system_pages, &file_, text, sizeof(text));
  if (!is_usable(status)) {
    *error = status == ReadStatus::absent ? state + ": no such file" : text;
    return false;
  }
  run_.take_in(file_, status == ReadStatus::ok, engine_.known_contexts.tree(), system_pages);
  return true;
}

LearningRun::Tables SimLearning::tables() {
  return {engine_.profiler, engine_.known_contexts.tree(), engine_.placement.cache(),
          engine_.system};
}

void SimLearning::start(Nanos now) {
  started_ = now;
  run_.begin(now);
  engine_.profiler.bound_contexts(Learner::kMostContexts, Learner::kContextsFreely);
  sample_if_worth_it(now);
  engine_.placement_on = segregates(engine_.options.segregate.value, false, run_.gate().is_on());
  note(now);
}

void SimLearning::sample_if_worth_it(Nanos now) {
  Profiler& profiler = engine_.profiler;
  const bool on = profiler.on();
  const uint64_t interval = run_.interval(engine_.options);
  if (!on && !run_.wants_samples(engine_.options, engine_.heap.held_bytes()))
    return engine_.sample_from(LearningRun::kLeastHeap, interval);
  if (on && profiler.interval() == interval) return;
  profiler.start(interval, now);
  engine_.threads.wake_all();
}

void SimLearning::work(Nanos now) {
  sample_if_worth_it(now);
  if (run_.is_round_due(now)) run_.round(tables(), now);
  const bool on = run_.step_gate(now, engine_.heap.held_bytes(), engine_.heap.live_bytes());
  engine_.place_by_lifetime(segregates(engine_.options.segregate.value, false, on),
                            run_.gate().is_late());
  note(now);
}

// What is new of its decision.
void SimLearning::note(Nanos now) {
  const Gate& gate = run_.gate();
  GateNote next{static_cast<uint64_t>((now - started_).n),
                engine_.placement_on,
                gate.is_late(),
                gate.kept().verdict,
                {}};
  if (!notes_.empty() && notes_.back().placing == next.placing && notes_.back().late == next.late &&
      notes_.back().verdict == next.verdict)
    return;
  char text[Gate::kSentence];
  gate.describe(text, sizeof(text));
  next.says = text;
  notes_.push_back(next);
}

bool SimLearning::write(const std::string& path, Nanos now, std::string* error) {
  run_.round(tables(), now);
  NodeArray merged;
  char text[512] = "no memory for the state";
  const bool written = run_.add_to(&file_, true, input_.program().build, system_pages, &merged) &&
                       write_learned_state(path.c_str(), file_.header, merged.view(), system_pages,
                                           text, sizeof(text));
  merged.give_back();
  if (written)
    run_.note_saved();
  else
    *error = text;
  return written;
}

}  // namespace llamalloc::sim
