// SPDX-License-Identifier: Apache-2.0
#include "runtime/own_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/static_tls.h"
#include "runtime/dynamic_symbol.h"

// Only of a C library that is linked statically: hidden, it is never another module's.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] unsigned int __nptl_nthreads;

namespace llamalloc {
namespace {

using ThreadMain = void();
using GetLeastStack = size_t(const pthread_attr_t*);

constexpr size_t kLibraryStack = 64 * 1024;  // of glibc, where it does not say; 18 KiB in 2.36

// Of the C library, which shows them to debuggers and runtimes; null: it has none.
constinit GetLeastStack* get_least_stack = nullptr;
constinit unsigned int* counted_threads = nullptr;

struct Place {
  int policy = SCHED_OTHER;
  int nice = 0;
  bool known = false;
};
// Of the process at its start.
constinit Place first_place{};
constinit cpu_set_t first_processors{};
constinit bool knows_processors = false;

// Of the calling thread. The system call returns 20 less the nice value, which is never negative.
Place read_place() {
  constexpr int kOfThread = 0;  // PRIO_PROCESS
  const long nice = syscall(SYS_getpriority, kOfThread, 0);
  const int policy = sched_getscheduler(0);
  return {policy & ~SCHED_RESET_ON_FORK, static_cast<int>(20 - nice), nice > 0 && policy >= 0};
}

bool may_use_first_processors() {
  cpu_set_t now, both;
  if (sched_getaffinity(0, sizeof(now), &now) != 0) return true;
  CPU_AND(&both, &now, &first_processors);
  return CPU_EQUAL(&both, &first_processors);
}

// What the C library and static thread-local variables take of a thread's stack. glibc tells it to
// runtimes that make threads with stacks of their own size (OpenJDK and Rust's library ask in the
// same way); in a program linked statically it cannot be asked.
size_t least_stack(const pthread_attr_t& attributes) {
  return get_least_stack != nullptr ? get_least_stack(&attributes)
                                    : thread_local_bytes() + kLibraryStack;
}

// Changes the count, unless it is `end`: false.
bool change_count(unsigned int by, unsigned int end) {
  if (counted_threads == nullptr) return true;
  unsigned int count = __atomic_load_n(counted_threads, __ATOMIC_RELAXED);
  do {
    if (count == end) return false;
  } while (!__atomic_compare_exchange_n(counted_threads, &count, count + by, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
  return true;
}

// glibc calls exit(0) when the last thread that it counts ends. If all others have ended before
// this one has left the count, it is the last. If they have ended before it comes back, exit(0) is
// under way.
void* run_uncounted(void* main) {
  if (!change_count(-1u, 1)) return nullptr;
  reinterpret_cast<ThreadMain*>(main)();
  while (!change_count(1, 0)) pause();
  return nullptr;
}

}  // namespace

void prepare_own_threads() {
  get_least_stack = first_function<GetLeastStack>("__pthread_get_minstack");
  counted_threads = &__nptl_nthreads != nullptr
                        ? &__nptl_nthreads
                        : static_cast<unsigned int*>(first_symbol("__nptl_nthreads"));
  knows_processors = sched_getaffinity(0, sizeof(first_processors), &first_processors) == 0;
  first_place = read_place();
}

void leave_starters_place() {
  const sched_param none{};
  const int policy = sched_getscheduler(0);
  if (policy == SCHED_FIFO || policy == SCHED_RR) sched_setscheduler(0, SCHED_OTHER, &none);
  if (knows_processors && !may_use_first_processors())
    sched_setaffinity(0, sizeof(first_processors), &first_processors);
}

bool is_below_process() {
  const Place here = read_place();
  if (!here.known || !first_place.known) return false;
  const bool rests = here.policy == SCHED_IDLE || here.policy == SCHED_BATCH;
  return (rests && here.policy != first_place.policy) || here.nice > first_place.nice;
}

bool start_thread(ThreadMain* main, size_t stack_bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes + least_stack(attributes));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool made =
      pthread_create(&thread, &attributes, run_uncounted, reinterpret_cast<void*>(main)) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

}  // namespace llamalloc
