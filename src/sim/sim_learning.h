// SPDX-License-Identifier: Apache-2.0
// Learning in a simulated process, as runtime/learning.h has it: the same rounds and steps of the
// gate (policy/learning_run.h), at the times when the simulated worker is awake. A state file may
// be read before the first event, and written after the last.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "policy/learning_run.h"
#include "sim/policy.h"
#include "sim/trace_stacks.h"

namespace llamalloc::sim {

class SimLearning {
 public:
  SimLearning(Engine& engine, TraceInput& input) : engine_(engine), input_(input), stacks_(input) {}

  // False: `error` says what is wrong with the state file. An empty path: nothing was learned yet.
  bool open(const std::string& state, std::string* error);
  // At the program's start.
  void start(Nanos now);
  // When the worker is awake.
  void work(Nanos now);
  // At the program's end: a last round, and the state goes to the file.
  bool write(const std::string& path, Nanos now, std::string* error);

  TraceStacks& stacks() { return stacks_; }
  const std::vector<GateNote>& notes() const { return notes_; }

 private:
  LearningRun::Tables tables();
  void sample_if_worth_it(Nanos now);
  void note(Nanos now);

  Engine& engine_;
  TraceInput& input_;
  TraceStacks stacks_;
  LearningRun run_;
  LearnedState file_;  // as it was read; to be added to
  Nanos started_{};
  std::vector<GateNote> notes_;
};

}  // namespace llamalloc::sim
