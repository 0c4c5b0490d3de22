// SPDX-License-Identifier: Apache-2.0
#include "runtime/learning.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "os/module_watch.h"
#include "os/path.h"
#include "os/system_facts.h"
#include "os/unwind.h"
#include "os/waiter.h"
#include "policy/gate.h"
#include "policy/learned_state.h"
#include "policy/learner.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/misuse.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constexpr Nanos kRound = Nanos::seconds(1);
constexpr int64_t kShareOfTime = 200;  // a round's time is one over this of all
constexpr Nanos kFirstSave = Nanos::seconds(10);
constexpr Nanos kSave = Nanos::seconds(60);
constexpr size_t kMostKept = Learner::kMostNodes / 2;
constexpr uint32_t kRunsUntilRetrial = 32;  // what the gate decided is then tried again
constexpr Nanos kPause = Nanos::millis(2);  // at exit, until another process gives the file free
constexpr int kTries = 250;

struct Learning {
  Learner learner;
  Gate gate;
  ModuleWatch modules;
  Nanos began{};
  Nanos next_round{};
  Nanos next_save{};
  char path[kOptionText + 256] = {};  // empty: nothing is kept
  char program[256] = {};
  uint64_t build = 0;
  bool changed_before = false;
  bool forked = false;  // since the last round
  uint64_t samples_saved = 0;
  bool wrote = false;       // this run is counted in the file
  bool complained = false;  // of a file that cannot be written
  char state[kOptionText + 512] = {};
  // Written by the worker in turns, so that others read one that is whole.
  char decisions[2][Gate::kSentence] = {};
  std::atomic<int> decision{0};
};
constinit Learning* learning = nullptr;

LearnedProgram this_program() {
  return {learning->build, learning->program};
}

void describe_decision() {
  const int next = 1 - learning->decision.load(std::memory_order_relaxed);
  learning->gate.describe(learning->decisions[next], Gate::kSentence);
  learning->decision.store(next, std::memory_order_release);
}

// ----- Start -----

// The best known ones: what this run meets needs room, too.
void take_in(const LearnedState& state) {
  NodeArray best;
  if (!merge_nodes(state.nodes.view(), {}, {}, kMostKept, process.system, &best)) return;
  for (const LearnedNode& node : best.view())
    learning->learner.take_in(node.key, node.level, node.differs, node.evidence);
  best.give_back();
  learning->learner.show_all(process.known_contexts.tree());
}

void keep_nothing(const char* why) {
  print_line("%s", why);
  snprintf(learning->state, sizeof(learning->state), "on; nothing is kept: %s", why);
  learning->path[0] = 0;
}

void read_state() {
  char error[512] = {};
  LearnedState state;
  const ReadStatus status = read_learned_state(learning->path, this_program(), process.system,
                                               &state, error, sizeof(error));
  if (is_usable(status)) take_in(state);
  if (status == ReadStatus::ok) {
    GateKept kept = state.header.gate;
    if (state.header.runs % kRunsUntilRetrial == 0) kept.age();
    learning->gate = Gate(kept);
  }
  state.nodes.give_back();
  if (!may_replace(status)) return keep_nothing(error);
  if (error[0] != 0) print_line("%s", error);
  snprintf(learning->state, sizeof(learning->state), "on: %s", learning->path);
}

void find_state() {
  const char* const value = process.options.learn.text;
  snprintf(learning->state, sizeof(learning->state), "on; nothing is kept: learn:on");
  if (strcmp(value, "on") == 0) return;
  program_name(learning->program, sizeof(learning->program));
  learning->build = build_of_code(program_entry());
  if (!learned_path(value, learning->program, learning->path, sizeof(learning->path)))
    return keep_nothing("learn: the path is too long");
  read_state();
}

// ----- Keeping -----

enum class Part { saved, steady };

// This run's evidence, as the file has it or as it will have it.
bool collect(Part part, NodeArray* out) {
  Learner& learner = learning->learner;
  if (!out->make_room(learner.size(), process.system)) return learner.size() == 0;
  for (uint32_t i = 0; i < learner.size(); ++i) {
    const Learner::Node& node = learner.node(i);
    const Evidence& evidence = part == Part::saved ? node.saved : node.steady;
    if (is_empty(evidence)) continue;
    LearnedNode kept;
    kept.key = node.key;
    kept.level = node.level & 0x7f;
    kept.differs = node.deeper;
    kept.evidence = evidence;
    out->append(kept);
  }
  std::sort(out->data(), out->data() + out->size(),
            [](const LearnedNode& a, const LearnedNode& b) { return a.key < b.key; });
  return true;
}

bool write_merged(LearnedState& file, NodeArray& before, NodeArray& now, char* error, size_t room) {
  if (!learning->wrote) {
    age_nodes({file.nodes.data(), file.nodes.size()});
    ++file.header.runs;
  }
  NodeArray merged;
  const bool whole =
      merge_nodes(file.nodes.view(), before.view(), now.view(), kMostKept, process.system, &merged);
  if (!whole) snprintf(error, room, "state %.300s: no memory to write it", learning->path);
  file.header.program = learning->build;
  file.header.gate = learning->gate.kept();
  const bool written = whole && write_learned_state(learning->path, file.header, merged.view(),
                                                    process.system, error, room);
  merged.give_back();
  return written;
}

void note_saved() {
  learning->wrote = true;
  for (uint32_t i = 0; i < learning->learner.size(); ++i)
    learning->learner.node(i).saved = learning->learner.node(i).steady;
}

// Under the lock of all who share the file: it may have grown since it was read.
void merge_into_file() {
  char error[512] = {};
  LearnedState file;
  NodeArray before, now;
  const ReadStatus status = read_learned_state(learning->path, this_program(), process.system,
                                               &file, error, sizeof(error));
  if (!is_usable(status)) file.header = header_for(this_program());
  error[0] = 0;
  const bool collected = collect(Part::saved, &before) && collect(Part::steady, &now);
  if (may_replace(status) && collected && write_merged(file, before, now, error, sizeof(error)))
    note_saved();
  for (NodeArray* nodes : {&file.nodes, &before, &now}) nodes->give_back();
  if (error[0] == 0) return;
  if (!learning->complained)
    print_line("%s; the program goes on, and what it learns is not kept", error);
  learning->complained = true;
}

// False: another process has the file.
// False: another process writes just now. Nothing is written where nothing was seen since, nor
// where the program installed a filter of system calls, which may end it for those of a file.
bool save() {
  const uint64_t samples = process.profiler.samples();
  if (learning->path[0] == 0 || samples == learning->samples_saved ||
      process_world.program_filters_calls())
    return true;
  if (!with_state_lock(learning->path, merge_into_file)) return false;
  learning->samples_saved = samples;
  return true;
}

// Processes that share a file often end together, and what one does not write now is lost.
void save_or_wait() {
  Waiter pause;
  for (int tries = 0; !save() && tries < kTries; ++tries) pause.wait(kPause);
}

// ----- Rounds -----

// What unloaded modules taught is known by their builds, and stays. Only addresses are forgotten.
void forget_unloaded() {
  if (learning->modules.look() == 0) return;
  const auto is_gone = [](uintptr_t address) { return !learning->modules.stayed(address); };
  prediction_cache.sites.forget_if(is_gone);
  process.known_contexts.forget_if(is_gone);
  prediction_cache.clear();
  unwind_cache_clear();
}

// The parent keeps what it learned so far; the child adds what it sees itself. It is no run of its
// own: servers fork thousands of them, and each run ages what is in the file.
void forget_parent() {
  learning->forked = false;
  for (uint32_t i = 0; i < learning->learner.size(); ++i) {
    Learner::Node& node = learning->learner.node(i);
    node.prior.add(node.now);
    node.now = node.steady = node.saved = {};
  }
}

void run_round(Nanos now) {
  if (learning->forked) forget_parent();
  forget_unloaded();
  const bool changed = learning->learner.round(process.profiler, process.known_contexts.tree(),
                                               process.system, now, learning->began);
  // Once more a round later: a thread may have published what it had looked up before.
  if (changed || learning->changed_before) prediction_cache.clear();
  learning->changed_before = changed;
  describe_decision();
  const Nanos rest{(process.system.now() - now).n * kShareOfTime};
  learning->next_round = now + (rest < kRound ? kRound : rest);
}

void step_gate(Nanos now) {
  const Learner::Shares shares = learning->learner.shares();
  const bool on = learning->gate.step(now, {.held = process.heap.held_bytes(),
                                            .live = process.heap.live_bytes(),
                                            .short_share = shares.short_lived,
                                            .long_share = shares.long_lived});
  const bool place = segregates(process.options.segregate.value, background.contexts.loaded(), on);
  if (process.placement_on.load(std::memory_order_relaxed) == place) return;
  const bool late = place && learning->gate.is_late();
  process.late.store(late, std::memory_order_relaxed);
  process.heap.pages().fill_unknown_pages(!late);
  prediction_cache.clear();
  learning->changed_before = true;
  process.placement_on.store(place, std::memory_order_release);
  process.threads.wake_all();
}

}  // namespace

bool is_learning() {
  return learning != nullptr;
}

bool gate_is_on() {
  return learning != nullptr && learning->gate.is_on();
}

void start_learning() {
  if (process.options.learn.text[0] == 0) return;
  learning = process.arena.make<Learning>();
  if (learning == nullptr || !learning->learner.open(process.arena) ||
      !learning->modules.open(process.arena) || !process.known_contexts.open(process.arena)) {
    print_line("learn: no memory for its tables; running without learning");
    learning = nullptr;
    return;
  }
  learning->began = process.system.now();
  learning->next_save = learning->began + kFirstSave;
  find_state();
  describe_decision();
}

void learn_if_due(Nanos now) {
  if (learning == nullptr) return;
  if (now >= learning->next_round) run_round(now);
  step_gate(now);
  if (now < learning->next_save) return;
  learning->next_save = now + (save() ? kSave : kRound);
}

void save_learned_at_exit() {
  if (learning == nullptr || process.profiler.samples() == 0) return;
  run_round(process.system.now());
  save_or_wait();
}

void learning_after_fork_in_child() {
  if (learning == nullptr) return;
  learning->began = process.system.now();
  learning->samples_saved = 0;
  learning->forked = learning->wrote = true;
}

const char* learning_state() {
  return learning == nullptr ? "off" : learning->state;
}

GateSentences gate_sentences() {
  if (learning == nullptr) return {};
  return {learning->decisions[0], Gate::kSentence, &learning->decision};
}

const char* segregation_state() {
  if (learning == nullptr) return "";
  if (process.options.segregate == Segregate::always)
    return "placement by lifetime is on: segregate:always";
  if (process.options.segregate == Segregate::never)
    return "placement by lifetime is off: segregate:never";
  return learning->decisions[learning->decision.load(std::memory_order_acquire)];
}

}  // namespace llamalloc
