// SPDX-License-Identifier: Apache-2.0
#include "runtime/fork.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/blocked_signals.h"
#include "os/no_cancel.h"
#include "os/stdio_lock.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/control.h"
#include "runtime/dynamic_symbol.h"
#include "runtime/figures.h"
#include "runtime/learning.h"
#include "runtime/model_names.h"
#include "runtime/output.h"

extern "C" void* __dso_handle;

namespace llamalloc {
namespace {

// Forks in signal handlers that interrupted this thread while it held locks of ours, nested. Such a
// fork takes none: it would wait for itself. Its child may call what is safe in a signal handler
// only, and if it returns from the handler, to a process of one thread, then to malloc's own code
// that the locks were for.
constinit thread_local uint32_t forks_inside __attribute__((tls_model("initial-exec"))) = 0;

// A signal handler that allocates would wait for its own thread where that holds some locks and not
// yet, or no longer, all of them: signals are blocked there. Between our handlers they are not, so
// that handlers registered before ours, and the program, find the mask that they know.
void prepare_fork() NO_THREAD_SAFETY_ANALYSIS {
  if (forks_inside != 0 || locks_of_this_thread != 0) {
    ++forks_inside;
    return;
  }
  // Who holds the second may wait for a disk. fopen and exit of other threads need the first, and
  // do not wait with us. No signal handler waits for the second.
  for (lock_stdio_list(); !background.work_lock.try_lock(); lock_stdio_list()) {
    unlock_stdio_list();
    background.work_lock.lock();
    background.work_lock.unlock();
  }
  const BlockedSignals here(kSignalsFromOutside);
  Lock::this_thread_lets_in(&here);
  control_before_fork();
  process.threads.lock().lock();
  process.profiler.lock_all();
  process.heap.lock_all();
  Lock::this_thread_holds_all(true);
  Lock::this_thread_lets_in(nullptr);
}

void parent_after_fork() NO_THREAD_SAFETY_ANALYSIS {
  if (forks_inside != 0) {
    --forks_inside;
    return;
  }
  const BlockedSignals here(kSignalsFromOutside);
  Lock::this_thread_holds_all(false);
  process.heap.unlock_all();
  process.profiler.unlock_all();
  process.threads.lock().unlock();
  control_after_fork_in_parent();
  background.work_lock.unlock();
  unlock_stdio_list();
}

void child_after_fork() {
  const NoCancel here;
  const BlockedSignals signals(kSignalsFromOutside);
  const bool inside = forks_inside != 0;
  if (inside) {
    --forks_inside;
    Lock::forget_order();
  } else {
    Lock::this_thread_holds_all(false);
    Lock::forget_order();
    forget_stdio_list();
  }
  process.heap.reset_locks_after_fork();
  if (!inside) {
    process.heap.pages().keep_what_was_leaving();
    process.heap.direct().finish_trimming();
  }
  process.profiler.reset_locks_after_fork();
  process.profiler.forget_all(process.system.now());
  note_birth();
  if (adopted_cache != nullptr) ProcessWorld::name_thread(*adopted_cache);
  process.threads.forget_others(adopted_cache);
  process.forget_call();
  control_after_fork_in_child();
  output_after_fork_in_child();
  learning_after_fork_in_child();
  model_names.after_fork_in_child();
  worker_after_fork_in_child();
  // Last: a fork in the handler of a fault must not wait for what is not reset yet.
  if (!inside) Lock::this_thread_holds_none();
}

}  // namespace

RegisterAtfork* real_register_atfork() {
  static constinit std::atomic<RegisterAtfork*> found{nullptr};
  RegisterAtfork* real = found.load(std::memory_order_relaxed);
  if (real != nullptr) return real;
  real = next_function<RegisterAtfork>("__register_atfork");
  found.store(real, std::memory_order_relaxed);
  return real;
}

void register_fork_handlers() {
  static constinit std::atomic<bool> done{false};
  if (done.exchange(true, std::memory_order_relaxed)) return;
  if (RegisterAtfork* real = real_register_atfork())
    real(prepare_fork, parent_after_fork, child_after_fork, &__dso_handle);
  else
    pthread_atfork(prepare_fork, parent_after_fork, child_after_fork);
}

}  // namespace llamalloc
