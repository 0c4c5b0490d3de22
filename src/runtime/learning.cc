// SPDX-License-Identifier: Apache-2.0
#include "runtime/learning.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/learning_steps.h"
#include "learning/carry_over.h"
#include "os/code_shape.h"
#include "os/module_watch.h"
#include "os/path.h"
#include "os/system_facts.h"
#include "os/unwind.h"
#include "os/waiter.h"
#include "runtime/background_state.h"
#include "runtime/misuse.h"
#include "runtime/process.h"
#include "runtime/process_code.h"
#include "state_file/state_file.h"

namespace llamalloc {
namespace {

constexpr Nanos kPause = Nanos::millis(2);  // at exit, until another process gives the file free
constexpr int kTries = 250;
constexpr int kLongBusy = 600;      // rounds that found the file locked
constexpr int kMostComplaints = 8;  // of a file that can be written now and then

// Written by the worker in turns, so that others read one that is whole.
template <size_t kRoom>
struct TextInTurns {
  char texts[2][kRoom] = {};
  std::atomic<int> valid{0};

  const char* get() const { return texts[valid.load(std::memory_order_acquire)]; }
  template <typename F>
  void write(F&& into) {
    const int next = 1 - valid.load(std::memory_order_relaxed);
    into(texts[next], kRoom);
    valid.store(next, std::memory_order_release);
  }
};

struct Learning : LearningSteps {
  Learning() : LearningSteps(process) {}
  ModuleWatch modules;
  Nanos next_save{};
  char path[kOptionText + 256] = {};  // empty: nothing is kept
  char program[256] = {};
  uint64_t build = 0;
  uint64_t builds = 0;      // loaded_builds(), when it began
  uint64_t carried = 0;     // count_loads() when the file was last carried over
  int complaints = 0;       // of a file that cannot be written
  bool complained = false;  // since it could
  int busy = 0;             // rounds in a row that found it locked
  bool is_forked = false;
  TextInTurns<2 * kOptionText + 1024> state;
  TextInTurns<Gate::kSentence> decision;
  bool learns = false;     // option `learn`
  bool has_model = false;  // of which it decides, too
  char measured[32 + GateKept::kText] = {};
};
constinit Learning* learning = nullptr;

LearnedProgram this_program() {
  return {learning->build, learning->program};
}

void describe_decision() {
  learning->decision.write(
      [](char* out, size_t room) { learning->describe(out, room, learning->path[0] != 0); });
}

[[gnu::format(printf, 1, 2)]] void say_state(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  learning->state.write([&](char* out, size_t room) { vsnprintf(out, room, format, arguments); });
  va_end(arguments);
}

// ----- Start -----

void keep_nothing(const char* why) {
  print_line("%s", why);
  say_state("on; nothing is kept: %s", why);
  learning->path[0] = 0;
}

// What other builds learned of this program or of its libraries, as far as it is found in these.
// The share of the last runs that is.
double carry_over_to_this(LearnedState* state) {
  const uint64_t loads = count_loads();
  const bool has_new_libraries = loads != learning->carried;
  learning->carried = loads;
  if (state->header.modules == learning->builds && !has_new_libraries) return 1;
  ProcessFunctions functions;
  return carry_over(state, functions, process.system);
}

void read_state() {
  char error[512] = {};
  LearnedState state;
  const ReadStatus status = read_learned_state(learning->path, this_program(), process.system,
                                               &state, error, sizeof(error));
  double known = 0;
  if (is_usable(status)) {
    const bool names_no_modules = state.header.modules == 0;  // as files of version 1
    known = carry_over_to_this(&state);
    if (status == ReadStatus::ok && names_no_modules) known = 1;
    learning->run.take_in(state, LearningRun::gate_from(status, known),
                          process.known_contexts.tree(), process.system);
  }
  state.give_back();
  if (!may_replace(status)) return keep_nothing(error);
  if (status == ReadStatus::other_build)
    print_line(
        "%s; %.0f %% of what its last run saw holds here, too, and the rest is learned again",
        error, 100 * known);
  else if (error[0] != 0)
    print_line("%s", error);
  say_state("on: %s", learning->path);
}

void find_state() {
  char value[kOptionText + 200];
  say_state("on; nothing is kept: learn:on");
  if (!path_of_option(process.options.learn.text, value, sizeof(value)))
    return keep_nothing("learn: the path is too long");
  if (strcmp(value, "on") == 0) return;
  program_name(learning->program, sizeof(learning->program));
  learning->build = build_of_code(program_entry());
  learning->builds = loaded_builds();
  learning->carried = count_loads();
  if (!learned_path(value, learning->program, learning->path, sizeof(learning->path)))
    return keep_nothing("learn: the path is too long");
  anchor_path(learning->path, sizeof(learning->path));
  read_state();
}

// ----- Keeping -----

// known: as carry_over_to_this, of the file.
bool write_merged(LearnedState& file, ReadStatus status, double known, char* error, size_t room) {
  LearningRun& run = learning->run;
  const LearningRun::Build build{learning->build, learning->builds, known};
  const bool whole =
      run.add_to(&file, status, build, process.system) && run.keep_frames_of(&file, process.system);
  if (!whole) snprintf(error, room, "state %.300s: no memory to write it", learning->path);
  return whole && write_learned_state(learning->path, file.header, file.nodes.view(),
                                      file.frames.view(), process.system, error, room);
}

// Once until it can be written again.
void complain(const char* error) {
  say_state("on: %s; not written: %s", learning->path, error);
  const bool is_told = std::exchange(learning->complained, true);
  if (is_told || learning->complaints == kMostComplaints) return;
  print_line("%s; the program goes on, and what it learns is not kept", error);
  ++learning->complaints;
}

void complain_of_lock(const char* what) {
  char error[1024];
  snprintf(error, sizeof(error), "state %.300s: its lock, %.300s.lock, %s", learning->path,
           learning->path, what);
  complain(error);
}

void note_written() {
  learning->run.note_saved();
  if (learning->complained) say_state("on: %s", learning->path);
  learning->complained = false;
}

// Under the lock of all who share the file: it may have grown since it was read.
void merge_into_file() {
  char error[512] = {};
  LearnedState file;
  const ReadStatus status = read_learned_state(learning->path, this_program(), process.system,
                                               &file, error, sizeof(error));
  double known = 1;
  if (is_usable(status))
    known = carry_over_to_this(&file);
  else
    file.header = header_for(this_program());
  if (may_replace(status)) error[0] = 0;
  if (may_replace(status) && write_merged(file, status, known, error, sizeof(error)))
    note_written();
  file.give_back();
  if (error[0] != 0) complain(error);
}

bool saw_enough() {
  return process.profiler.samples() >= process.profiler.firsts() + kEnoughShort;
}

// Nothing is written where nothing was learned since, nor where the program installed a filter of
// system calls, which may end it for those of a file.
bool has_to_save() {
  const bool worth_it = learning->run.has_file() || saw_enough();
  return learning->path[0] != 0 && worth_it && learning->run.has_news() &&
         !process_world.program_filters_calls();
}

void look_at_frames() {
  ProcessFunctions functions;
  learning->run.look_at_frames(process.profiler.stacks(), functions, process.system);
}

// False: another process writes just now.
bool try_to_write() {
  const FileLock::Fault fault = with_state_lock(learning->path, merge_into_file);
  if (fault == FileLock::Fault::refused) complain_of_lock("belongs to another user: remove it");
  if (fault != FileLock::Fault::busy) learning->busy = 0;
  return fault != FileLock::Fault::busy;
}

bool try_to_write_in_round() {
  const bool tried = try_to_write();
  if (!tried && ++learning->busy == kLongBusy) complain_of_lock("has been held for ten minutes");
  return tried;
}

bool save() {
  if (!has_to_save()) return true;
  look_at_frames();
  return try_to_write_in_round();
}

// Processes that share a file often end together, and what one does not write now is lost. One that
// saw little, as many a forked child, does not wait.
void save_or_wait() {
  if (!has_to_save()) return;
  look_at_frames();
  Waiter pause;
  for (int tries = saw_enough() ? kTries : 0; !try_to_write() && tries > 0; --tries)
    pause.wait(kPause);
}

// A server that forks a child for each connection would write the file that often. Where one saw
// little, and another has just written, what it saw is left out.
bool is_one_of_many() {
  constexpr Nanos kJustNow = Nanos::seconds(1);
  return learning->is_forked && !saw_enough() && !process_world.program_filters_calls() &&
         learning->path[0] != 0 && was_written_within(learning->path, kJustNow);
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

void run_round(Nanos now) {
  if (learning->learns) forget_unloaded();
  learning->round(now);
  describe_decision();
}

}  // namespace

bool is_learning() {
  return learning != nullptr && learning->learns;
}

bool places_by_lifetime() {
  const bool gate_is_on = learning != nullptr && learning->run.gate().is_on();
  return segregates(process.options.segregate.value, gate_is_on);
}

void start_learning() {
  const char* const where = process.options.learn.text;
  const bool learns = where[0] != 0 && strcmp(where, "off") != 0;
  const bool has_model = background.contexts.loaded();
  if (!learns && !has_model && process.options.profile.text[0] == 0) return;
  learning = process.arena.make<Learning>();
  const bool opened = learning != nullptr &&
                      (!learns || (learning->open() && learning->modules.open(process.arena)));
  if (!opened) {
    print_line("no memory for the tables of learning; running without");
    learning = nullptr;
    return;
  }
  const Nanos now = process.system.now();
  learning->begin(now);
  learning->learns = learns;
  learning->has_model = has_model;
  learning->next_save = now + LearningRun::kFirstSave;
  if (learns) find_state();
  if (has_model) {
    learning->take_evidence(GateKept::read(background.contexts.evidence().gate));
    process.foresees = process.options.segregate != Segregate::never;
  }
  describe_decision();
}

void drop_model() {
  process.foresees = false;
  if (learning != nullptr) learning->has_model = false;
}

void sample_for_learning(bool already) {
  if (learning != nullptr) learning->sample_if_worth_it(already);
}

void learn_if_due(Nanos now) {
  if (learning == nullptr) return;
  learning->step(now, run_round);
  if (now < learning->next_save) return;
  learning->next_save = now + (save() ? LearningRun::kSave : LearningRun::kRound);
}

void save_learned_at_exit() {
  if (learning == nullptr || process.profiler.samples() == 0 || is_one_of_many()) return;
  learning->finish(process.system.now(), run_round);
  save_or_wait();
}

void learning_after_fork_in_child() {
  if (learning == nullptr) return;
  learning->is_forked = true;
  learning->run.fork_at(process.system.now());
}

const char* measured_for_profile() {
  // Where the option decides, the gate measures nothing.
  if (learning == nullptr || !learning->gate_decides()) return "";
  constexpr char kPrefix[] = "llamalloc-gate ";
  constexpr size_t kLength = sizeof(kPrefix) - 1;
  memcpy(learning->measured, kPrefix, sizeof(kPrefix));
  learning->run.gate().measured().write(learning->measured + kLength, GateKept::kText);
  return learning->measured;
}

const char* learning_state() {
  return is_learning() ? learning->state.get() : "off";
}

// By what is learned, by a model, or by both.
static bool can_place() {
  return learning != nullptr && (learning->learns || learning->has_model);
}

GateSentences gate_sentences() {
  if (!can_place()) return {};
  return {learning->decision.texts[0], Gate::kSentence, &learning->decision.valid};
}

const char* segregation_state() {
  if (!can_place()) return "";
  return learning->decision.get();
}

}  // namespace llamalloc
