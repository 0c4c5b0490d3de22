// SPDX-License-Identifier: Apache-2.0
// How a thread of the storm sleeps, and what signals do to it there.
//
// A handler may allocate, and may leave by siglongjmp, only while `asleep` is set: then it
// interrupted a system call, or the few instructions around one, and not the allocator. Otherwise
// it at most sleeps itself, in the middle of malloc as well.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "block.h"

namespace storm {

inline std::atomic<long> sleeps{0}, handled{0}, handler_blocks{0}, jumps{0};
inline int ring = -1;  // of io_uring; -1 where that is not allowed

struct Sleeper {
  volatile sig_atomic_t asleep = 0;
  sigjmp_buf awake;
  uint64_t state = 0;  // of the handler's own random numbers
};
inline thread_local Sleeper sleeper;

inline timespec random_time(uint64_t& state) {
  return {0, static_cast<long>(next_random(state) % 1500) * 1000};
}

inline void allocate_in_handler(uint64_t& state) {
  Block blocks[6];
  for (Block& block : blocks) block = allocate(state);
  for (Block& block : blocks) release(block);
  handler_blocks += 6;
}

inline void handler(int) {
  const int saved = errno;
  Sleeper& self = sleeper;
  const uint64_t r = next_random(self.state);
  ++handled;
  if (!self.asleep) {
    const timespec time = random_time(self.state);
    if (r % 16 == 0) nanosleep(&time, nullptr);
    errno = saved;
    return;
  }
  self.asleep = 0;
  if (r % 4 != 0) allocate_in_handler(self.state);
  if (r % 8 < 3) {
    ++jumps;
    siglongjmp(self.awake, 1);
  }
  self.asleep = 1;
  errno = saved;
}

inline void install_handlers() {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  io_uring_params parameters = {};
  ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
}

// Nothing was asked of the ring, so that this ends by its time.
inline void wait_in_ring(timespec& time) {
  __kernel_timespec until = {time.tv_sec, time.tv_nsec};
  io_uring_getevents_arg argument = {};
  argument.ts = reinterpret_cast<uintptr_t>(&until);
  syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
          sizeof(argument));
}

inline void wait_for_other_signals(timespec& time) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGWINCH);
  sigtimedwait(&set, nullptr, &time);
}

// pause: until a signal comes.
inline void block(uint64_t way, timespec& time) {
  int word = 0;
  switch (way % 8) {
    case 0:
      usleep(static_cast<useconds_t>(time.tv_nsec / 1000));
      break;
    case 1:
      nanosleep(&time, nullptr);
      break;
    case 2:
      poll(nullptr, 0, static_cast<int>(time.tv_nsec / 500000));
      break;
    case 3:
      pause();
      break;
    case 4:
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
      break;
    case 5:
      wait_for_other_signals(time);
      break;
    case 6:
      pselect(0, nullptr, nullptr, nullptr, &time, nullptr);
      break;
    default:
      ring < 0 ? static_cast<void>(nanosleep(&time, nullptr)) : wait_in_ring(time);
  }
}

[[gnu::noinline]] inline void sleep_somehow(uint64_t& state) {
  const uint64_t way = next_random(state);
  timespec time = random_time(state);
  ++sleeps;
  if (sigsetjmp(sleeper.awake, 1) == 0) {
    sleeper.asleep = 1;
    block(way, time);
  }
  sleeper.asleep = 0;
}

}  // namespace storm
