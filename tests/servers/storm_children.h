// SPDX-License-Identifier: Apache-2.0
// Children of the storm: some share our memory and allocate while their parent waits, some are
// forks, and one stops our threads and lets them go on, all the time.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "block.h"

namespace storm {

inline std::atomic<long> shared_children{0}, forks{0};
inline std::atomic<long>* stops = nullptr;  // by the tracer, in memory shared with it

inline void expect_good_end(pid_t child) {
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (child < 0 || ended != child || status != 0) fail("a child ended badly", nullptr, status);
}

// What a child and its parent, who share them, do in turn.
struct Shared {
  Block blocks[64];
  uint64_t state;
};

inline void toggle(Block& block, uint64_t& state) {
  if (block.bytes == nullptr) {
    block = allocate(state);
  } else {
    release(block);
  }
}

inline int be_shared_child(void* argument) {
  Shared& shared = *static_cast<Shared*>(argument);
  for (uint64_t i = 50 + next_random(shared.state) % 4000; i > 0; --i)
    toggle(shared.blocks[next_random(shared.state) % 64], shared.state);
  return 0;
}

[[gnu::noinline]] inline pid_t start_vfork(Shared& shared) {
  const pid_t child = vfork();
  if (child == 0) _exit(be_shared_child(&shared));
  return child;
}

// With every signal blocked: a handler would share thread-local storage with a running child.
inline void run_shared_child(Shared& shared) {
  constexpr size_t kStack = 128 << 10;
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  char* stack = static_cast<char*>(malloc(kStack));
  const uint64_t way = next_random(shared.state) % 3;
  const int flags = CLONE_VM | SIGCHLD | (way == 1 ? CLONE_VFORK : 0);
  expect_good_end(way == 0 ? start_vfork(shared)
                           : clone(be_shared_child, stack + kStack, flags, &shared));
  free(stack);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  ++shared_children;
}

inline void run_fork(uint64_t seed) {
  uint64_t state = seed;
  Block inherited = allocate(state);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    Block blocks[50];
    for (int i = 0; i < 500; ++i) toggle(blocks[next_random(state) % 50], state);
    release(inherited);
    _exit(0);
  }
  expect_good_end(child);
  release(inherited);
  ++forks;
}

// A thread of the process at random, by a list that is read from the system; 0: none.
inline pid_t random_thread(pid_t process, uint64_t& state) {
  char path[40];
  snprintf(path, sizeof(path), "/proc/%d/task", process);
  DIR* folder = opendir(path);
  pid_t found = 0;
  int seen = 0;
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    if (entry->d_name[0] != '.' && next_random(state) % ++seen == 0) found = atoi(entry->d_name);
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

// A signal that stopped the thread on its way is handed on.
inline void stop_for_a_while(pid_t thread, uint64_t& state) {
  int status = 0;
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0) return;
  if (ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0 || waitpid(thread, &status, __WALL) != thread ||
      !WIFSTOPPED(status))
    return;
  usleep(static_cast<useconds_t>(next_random(state) % 1500));
  const bool is_signal = status >> 16 == 0;
  ptrace(PTRACE_DETACH, thread, 0, is_signal ? static_cast<uintptr_t>(WSTOPSIG(status)) : 0);
  ++*stops;
}

// Counts no stop where a process may not trace its parent. Before any thread is started.
inline pid_t start_tracer(uint64_t seed) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  stops = new (page) std::atomic<long>{0};
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t state = seed; getppid() == parent; usleep(next_random(state) % 3000)) {
      const pid_t thread = random_thread(parent, state);
      if (thread != 0) stop_for_a_while(thread, state);
    }
    _exit(0);
  }
  prctl(PR_SET_PTRACER, child);
  return child;
}

}  // namespace storm
