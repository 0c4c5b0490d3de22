// SPDX-License-Identifier: Apache-2.0
// The parts of the process, and how they start and end. Memory works before any of this ran.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "os/foreign.h"
#include "os/module_range.h"
#include "os/stdio_lock.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/configuration.h"
#include "runtime/control.h"
#include "runtime/hardened.h"
#include "runtime/output.h"
#include "runtime/thread_exit.h"

namespace llamalloc {

namespace {

// Without a usable model everything works as before, in one page group.
bool load_model() {
  if (process.options.model.text[0] == 0) return false;
  static constinit char error[512] = "refused: ";
  constexpr size_t kPrefix = 9;
  if (background.contexts.load(process.options.model.text, process.arena, error + kPrefix,
                               sizeof(error) - kPrefix)) {
    process.model_state = "loaded";
    return true;
  }
  process.model_state = error;
  print_line("%s; running without a model", error + kPrefix);
  return false;
}

// Forks in signal handlers that interrupted this thread while it held locks of ours, nested. Such a
// fork takes none: it would wait for itself. Its child may call what is safe in a signal handler
// only, and if it returns from the handler, to a process of one thread, then to malloc's own code
// that the locks were for.
constinit thread_local uint32_t forks_inside __attribute__((tls_model("initial-exec"))) = 0;

// Handlers that others registered before us run while we hold the locks: after prepare_fork, and
// before the other two. What they allocate passes the locks.
void prepare_fork() {
  if (forks_inside != 0 || locks_of_this_thread != 0) {
    ++forks_inside;
    return;
  }
  lock_stdio_list();
  background.work_lock.lock();
  control_before_fork();
  process.threads.lock().lock();
  process.profiler.lock_all();
  process.heap.lock_all();
  Lock::this_thread_holds_all(true);
}

void parent_after_fork() {
  if (forks_inside != 0) {
    --forks_inside;
    return;
  }
  Lock::this_thread_holds_all(false);
  process.heap.unlock_all();
  process.profiler.unlock_all();
  process.threads.lock().unlock();
  control_after_fork_in_parent();
  background.work_lock.unlock();
  unlock_stdio_list();
}

void child_after_fork() {
  const bool inside = forks_inside != 0;
  if (inside) {
    --forks_inside;
  } else {
    Lock::this_thread_holds_all(false);
    Lock::this_thread_holds_none();
    forget_stdio_list();
  }
  process.heap.reset_locks_after_fork();
  process.profiler.reset_locks_after_fork();
  process.profiler.forget_all(process.system.now());
  if (adopted_cache != nullptr)
    adopted_cache->thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  process.threads.forget_others(adopted_cache);
  control_after_fork_in_child();
  output_after_fork_in_child();
  worker_after_fork_in_child();
}

[[gnu::constructor(101)]] void start() {
  process.started = process.system.now();
  find_system_libraries();
  read_options();
  check_output_paths();
  process.heap.use_huge_pages(process.options.hugepages);
  process.heap.share_pages_below(process.options.share_pages_below / kHugePageSize);
  prepare_thread_exit();
  prepare_foreign();
  pthread_atfork(prepare_fork, parent_after_fork, child_after_fork);
  if (process.options.hardened) start_hardened_mode();
  process.ready.store(true, std::memory_order_release);
  const bool predict = load_model();
  const bool profile = process.options.profile.text[0] != 0;
  if (process.options.control.text[0] != 0) open_control(process.options.control.text);
  if (predict || profile || process.hardened) {  // hardened: so that a report can name a stack
    process.profiler.start(process.options.sample_interval, process.system.now());
    process.threads.wake_all();
  }
  if (!predict && !profile) return;
  const bool working = start_worker();
  if (predict && !working) {
    process.model_state = "refused: no background thread";
    print_line("model %s: no background thread could be made; running without a model",
               process.options.model.text);
  }
  process.placement_on.store(predict && working, std::memory_order_release);
  process.threads.wake_all();
}

[[gnu::destructor(101)]] void finish() {
  remove_control_at_exit();
  write_at_exit();
  if (process.options.stats_print) print_summary();
}

}  // namespace

constinit HeapTables heap_tables;
constinit PredictionCache prediction_cache;
constinit Process process(system_pages, heap_tables, prediction_cache);

}  // namespace llamalloc
