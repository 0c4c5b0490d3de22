// SPDX-License-Identifier: Apache-2.0
// The parts of the process, and how they start and end. Memory works before any of this ran.
#include "base/hash.h"
#include "learning/learner.h"
#include "os/foreign.h"
#include "os/module_range.h"
#include "os/no_cancel.h"
#include "os/path.h"
#include "os/system_facts.h"
#include "os/unwind.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/configuration.h"
#include "runtime/control.h"
#include "runtime/figures.h"
#include "runtime/foreign.h"
#include "runtime/fork.h"
#include "runtime/jemalloc.h"
#include "runtime/learning.h"
#include "runtime/model_names.h"
#include "runtime/output.h"
#include "runtime/own_cache.h"
#include "runtime/own_thread.h"
#include "runtime/published.h"
#include "runtime/system_settings.h"
#include "runtime/thread_exit.h"
#include "runtime/values.h"

namespace llamalloc {

namespace {

// Threads that meet a context first ask the tables themselves.
bool share_tables(const ModelEvidence& tables) {
  const bool by_name = tables.names.size() != 0 && model_names.open(tables);
  return background.contexts.share_tables(process.known_contexts, by_name ? &model_names : nullptr,
                                          process.arena);
}

// The worker evaluates contexts with the model from then on. False: `error` says why.
bool use_model(const char* path, char* error, size_t room) {
  Evaluator* model = Evaluator::load(path, process.arena, error, room);
  if (model == nullptr) return false;
  char program[256];
  program_name(program, sizeof(program));
  const ContextWorker::Origin origin{path, program, build_of_code(program_entry())};
  if (background.contexts.open(*model, background.code, origin, process.arena, error, room))
    return share_tables(model->evidence());
  model->close();
  return false;
}

// Without a usable model everything works as before, in one page group.
bool load_model() {
  if (process.options.model.text[0] == 0) return false;
  static constinit char error[768] = "refused: ";
  constexpr size_t kPrefix = 9;
  static constinit char path[kOptionText + 512] = "";
  path_of_option(process.options.model.text, path, sizeof(path));
  if (use_model(path, error + kPrefix, sizeof(error) - kPrefix)) {
    process.model_state = "loaded";
    if (error[kPrefix] != '\0') print_line("%s", error + kPrefix);
    return true;
  }
  process.model_state = error;
  print_line("%s; running without a model", error + kPrefix);
  return false;
}

void start_hardening() {
  // What the loader has freed is plain, and lies where fast paths would find it; this thread caches
  // nothing from now on. (One that a constructor before ours has started may still.)
  {
    const SlowPath slow;
    if (ThreadCache* const cache = own_cache()) {
      process.flush_cache(cache);
      cache->magazines.start_over();
    }
  }
  const uint64_t secret = mix(static_cast<uint64_t>(process.system.now().n),
                              reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  if (!process.hardening.start(process.arena, secret))
    print_line("hardened:on: out of memory; continuing without hardened mode");
}

[[gnu::constructor(101)]] void start() {
  register_fork_handlers();
  prepare_own_threads();
  remember_process();
  process.started = process.system.now();
  note_birth();
  program_start();
  find_system_libraries();
  read_options();
  check_output_paths();
  process.apply_options();
  process_world.start();
  look_at_system_settings(process.started);
  prepare_thread_exit();
  prepare_foreign();
  remember_foreign_functions();
  find_jemalloc_early();
  if (process.options.hardened) start_hardening();
  process.ready.store(true, std::memory_order_release);
  const bool predict = load_model();
  start_learning();
  publish_counters();
  const bool learn = is_learning();
  const bool profile = process.options.profile.text[0] != 0;
  open_sockets(process.options.control.text, process.options.http.text);
  const bool observed = control_is_open();
  if (profile) process.profiler.tell_teardown();
  if (profile || http_address[0] != 0) process.profiler.tell_history(process.system.now());
  // Without learning, a profile that is asked for shows each stack from its first sample on.
  if ((learn || observed) && !profile)
    process.profiler.bound_contexts(Learner::kMostContexts,
                                    learn ? Learner::kContextsFreely : Learner::kMostContexts);
  // Hardened: so that a report can name a stack.
  const bool always = process.options.segregate == Segregate::always;
  const bool needed = (predict && always) || profile || process.hardening.is_on();
  const bool sample = needed || observed;
  samples_for_lookers = observed && !needed && !learn && !predict;
  if (sample) {
    start_sampling(process.started);
    process.threads.wake_all();
  }
  sample_for_learning(sample);
  const bool stats = writes_stats_while_running();
  const bool place = places_by_lifetime();
  // Learning waits for the heap to grow (Engine::look_at_growth), and so does the worker: a
  // launcher that changes its user step by step, such as setpriv, must not have a second thread.
  const bool learns_now = learn && (place || process.profiler.on());
  if (!predict && !profile && !learns_now && !stats) return;
  const bool working = start_worker();
  if (predict && !working) {
    process.model_state = "refused: no background thread";
    drop_model();
    print_line(
        "model %s: needs the background thread, which is off (worker:off) or cannot be started; "
        "running without a model",
        process.options.model.text);
  }
  process.start_placing(place && working);
}

// A child that ran no fork handlers (of the bare system call, or _Fork) has nothing of its own: the
// sockets and files are its parent's. A handler that interrupted our own code, and exits, would
// wait for itself, or write what is half done.
bool may_finish() {
  return is_own_process() && locks_of_this_thread == 0;
}

[[gnu::destructor(101)]] void finish() {
  if (!may_finish()) return;
  const NoCancel here;
  remove_control_at_exit();
  write_at_exit();
  if (process.options.stats_print) print_summary();
}

}  // namespace

constinit HeapTables heap_tables;
constinit PredictionCache prediction_cache;
constinit Process process(system_pages, heap_tables, prediction_cache, empty_cache, process_world);

}  // namespace llamalloc
