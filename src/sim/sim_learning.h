// SPDX-License-Identifier: Apache-2.0
// Learning, or a model, in a simulated process: engine/learning_steps.h, at the times when the
// simulated worker is awake. A state file may be read before the first event, and written after the
// last.
#pragma once

#include <string>
#include <vector>

#include "engine/learning_steps.h"
#include "sim/policy.h"
#include "sim/trace_stacks.h"

namespace llamalloc::sim {

// With a model: the gate, and what samples say of its predictions.
class SimGate {
 public:
  explicit SimGate(Engine& engine) : engine_(engine), steps_(engine) {}

  void take_evidence(const GateKept& evidence) { steps_.take_evidence(evidence); }
  // At the program's start.
  void start(Nanos now);
  // When the worker is awake.
  void work(Nanos now);
  const std::vector<GateNote>& notes() const { return notes_; }

 protected:
  Engine& engine_;
  LearningSteps steps_;

 private:
  void note(Nanos now);

  Nanos started_{};
  std::vector<GateNote> notes_;
};

class SimLearning : public SimGate {
 public:
  SimLearning(Engine& engine, TraceInput& input) : SimGate(engine), input_(input), stacks_(input) {}

  // False: `error` says what is wrong with the state file. An empty path: nothing was learned yet.
  bool open(const std::string& state, std::string* error);
  // Whether write() may: what is no state file of this program is left alone, as `error` says.
  bool may_keep(const std::string& path, std::string* error) const;
  // At the program's end: a last round, and the state goes to the file.
  bool write(const std::string& path, Nanos now, std::string* error);

  TraceStacks& stacks() { return stacks_; }

 private:
  ReadStatus read(const std::string& path, LearnedState* out, std::string* error) const;

  TraceInput& input_;
  TraceStacks stacks_;
  LearningRun& run_ = steps_.run;
  LearnedState file_;  // as it was read; to be added to
};

}  // namespace llamalloc::sim
