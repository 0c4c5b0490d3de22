// SPDX-License-Identifier: Apache-2.0
#include "recorder/process_life.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "os/lock.h"
#include "os/stdio_lock.h"
#include "os/waiter.h"
#include "recorder/recorder.h"
#include "recorder/recorder_state.h"

namespace llamalloc {
namespace {

constexpr size_t kNamingStack = 512 * 1024;
constexpr Nanos kNamingInterval = Nanos::millis(300);

constinit pthread_key_t exit_key{};
constinit bool key_made = false;
constinit Waiter naming_rest;
constinit thread_local bool has_ended __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local uint32_t number __attribute__((tls_model("initial-exec"))) = 0;

void thread_ends(void* value) {
  has_ended = true;
  current_log = nullptr;
  recorder.detach(static_cast<ThreadLog*>(value));
}

// Names frames soon after they are first seen, so that a killed process leaves names too.
void* name_frames(void*) {
  const InsideScope inside;
  prctl(PR_SET_NAME, "llamalloc-trace");
  while (recorder.state.load(std::memory_order_relaxed) == RecorderState::on) {
    naming_rest.wait(kNamingInterval);
    if (recorder.tables.has_unnamed()) recorder.name_new_frames();
  }
  return nullptr;
}

void start_naming() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kNamingStack);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  {
    const InsideScope inside;
    pthread_t thread;
    pthread_create(&thread, &attributes, name_frames, nullptr);  // else they are named at the end
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

// By the thread that forks, between prepare and the other two; only while it records.
constinit thread_local bool holds_locks __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local uint32_t locks_taken __attribute__((tls_model("initial-exec"))) = 0;
// Forks in signal handlers that interrupted the allocator, the recorder or another fork, nested. As
// in runtime/fork.cc such a fork takes no lock: it would wait for itself. The child is not
// recorded, since what it inherits of the recording may be half changed.
constinit thread_local uint32_t forks_inside __attribute__((tls_model("initial-exec"))) = 0;

bool interrupts_us() {
  const bool records = current_log != nullptr &&
                       current_log->busy.load(std::memory_order_relaxed) != ThreadLog::kIdle;
  return records || may_hold_our_locks();
}

void prepare_fork() {
  if (interrupts_us()) {
    ++forks_inside;
    return;
  }
  holds_locks = recorder.state.load(std::memory_order_acquire) == RecorderState::on &&
                !recorder.output.is_of_another();
  if (!holds_locks) return;
  lock_stdio_list();
  recorder.lock_all();
  // The allocator's handler comes next, and takes its locks only if the thread holds none.
  locks_taken = locks_of_this_thread;
  Lock::this_thread_holds_none();
}
void parent_after_fork() {
  if (forks_inside != 0) {
    --forks_inside;
    return;
  }
  if (!holds_locks) return;
  locks_of_this_thread += locks_taken;
  recorder.unlock_all();
  holds_locks = false;
  unlock_stdio_list();
}
void child_after_fork() {
  if (forks_inside != 0) {
    --forks_inside;
    recorder.stop_in_child();
    return;
  }
  if (!holds_locks) return;
  recorder.restart_in_child();
  forget_stdio_list();
  holds_locks = false;
}

// After the allocator's own (101), which this recorder stands in front of.
[[gnu::constructor(102)]] void start() {
  register_recorder_fork_handlers();
  key_made = pthread_key_create(&exit_key, thread_ends) == 0;
  if (key_made && current_log != nullptr) pthread_setspecific(exit_key, current_log);
  recorder.open();
  if (recorder.state.load(std::memory_order_relaxed) != RecorderState::on) return;
  at_quick_exit(end_recording);  // early, so that it runs after the program's own
  start_naming();
}

[[gnu::destructor(102)]] void finish() {
  end_recording();
}

}  // namespace

void register_recorder_fork_handlers() {
  static constinit std::atomic<bool> done{false};
  if (!done.exchange(true, std::memory_order_relaxed))
    pthread_atfork(prepare_fork, parent_after_fork, child_after_fork);
}

uint32_t thread_number() {
  return number;
}

bool may_hold_our_locks() {
  return forks_inside != 0 || holds_locks || locks_of_this_thread != 0;
}

void end_process(int status) {
  end_recording();
  for (;;) syscall(SYS_exit_group, status);
}

void remember_thread(ThreadLog* log) {
  number = log->thread;
  if (key_made) pthread_setspecific(exit_key, log);
}

bool thread_is_past_its_handler() {
  return has_ended;
}

}  // namespace llamalloc
