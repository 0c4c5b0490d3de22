// SPDX-License-Identifier: Apache-2.0
// Learning in a simulated process: engine/learning_steps.h, at the times when the simulated worker
// is awake. A state file may be read before the first event, and written after the last.
#pragma once

#include <string>
#include <vector>

#include "engine/learning_steps.h"
#include "sim/policy.h"
#include "sim/trace_stacks.h"

namespace llamalloc::sim {

class SimLearning {
 public:
  SimLearning(Engine& engine, TraceInput& input)
      : engine_(engine), input_(input), stacks_(input), steps_(engine) {}

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
  void note(Nanos now);

  Engine& engine_;
  TraceInput& input_;
  TraceStacks stacks_;
  LearningSteps steps_;
  LearningRun& run_ = steps_.run;
  LearnedState file_;  // as it was read; to be added to
  Nanos started_{};
  std::vector<GateNote> notes_;
};

}  // namespace llamalloc::sim
