// SPDX-License-Identifier: Apache-2.0
#include "runtime/learning.h"

#include "os/module_watch.h"
#include "os/unwind.h"
#include "policy/learner.h"
#include "runtime/background.h"
#include "runtime/misuse.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constexpr Nanos kRound = Nanos::seconds(1);
constexpr int64_t kShareOfTime = 200;  // a round's time is one over this of all

struct Learning {
  Learner learner;
  ModuleWatch modules;
  Nanos next_round{};
  Nanos began{};
};
constinit Learning* learning = nullptr;

// What unloaded modules taught is not forgotten: it is known by their builds. Only addresses are.
void forget_unloaded() {
  if (learning->modules.look() == 0) return;
  const auto is_gone = [](uintptr_t address) { return !learning->modules.stayed(address); };
  prediction_cache.sites.forget_if(is_gone);
  process.known_contexts.forget_if(is_gone);
  prediction_cache.clear();
  unwind_cache_clear();
}

}  // namespace

bool is_learning() {
  return learning != nullptr;
}

bool start_learning() {
  if (process.options.learn.text[0] == 0) return false;
  learning = process.arena.make<Learning>();
  if (learning == nullptr || !learning->learner.open(process.arena) ||
      !learning->modules.open(process.arena) || !process.known_contexts.open(process.arena)) {
    print_line("learn: no memory for its tables; running without learning");
    learning = nullptr;
    return false;
  }
  learning->began = process.system.now();
  return true;
}

void learn_if_due(Nanos now) {
  if (learning == nullptr || now < learning->next_round) return;
  forget_unloaded();
  if (learning->learner.round(process.profiler, process.known_contexts.tree(), process.system, now,
                              learning->began))
    prediction_cache.clear();
  const Nanos rest{(process.system.now() - now).n * kShareOfTime};
  learning->next_round = now + (rest < kRound ? kRound : rest);
}

void save_learned_at_exit() {}

void learning_after_fork_in_child() {
  if (learning != nullptr) learning->began = process.system.now();
}

}  // namespace llamalloc
