// SPDX-License-Identifier: Apache-2.0
// The allocator's background thread during a replay, held and timed from outside: a program's own
// clock_gettime and syscall stand in front of the C library's. The background thread reads the
// monotonic clock once, as each of its steps begins, and sleeps in a futex call when it is over.
//
//   the thread whose turn it is   has the stage, gives it up when it sleeps or the worker waits
//   the background thread         takes the stage for a step, notes when that was
//
// So a step happens between two events. What a heap looks like depends on these moments, and they
// depend on how busy the machine is; a simulation that is told them is free of that noise.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace llamalloc {

struct WorkerVisit {
  uint64_t event;  // how many events were over
  uint64_t at;     // nanoseconds, CLOCK_MONOTONIC
};

class WorkerWatch {
 public:
  static constexpr size_t kMost = 1 << 16;  // 109 minutes at ten a second

  // The caller has the stage from now on. One watch at a time.
  void start();
  // The caller, which has the stage, leaves it for good.
  void stop();
  // The calling thread is the program's own.
  static void ignore_this_thread();
  // By who has the stage, when `events` are over.
  void events_are_over(size_t events) {
    events_ = events;
    if (__builtin_expect(waits_.load(std::memory_order_relaxed), 0)) leave(), enter();
  }
  // Around a sleep of who has the stage.
  void leave();
  void enter();

  size_t count() const { return count_ < kMost ? count_ : kMost; }
  const WorkerVisit* visits() const { return visits_; }

  // By the background thread.
  void begin_step();
  void note(uint64_t at);
  void end_step();

 private:
  sem_t stage_;
  std::atomic<bool> waits_{false};  // the background thread, for the stage
  // Guarded by the stage.
  size_t events_ = 0;
  size_t count_ = 0;
  WorkerVisit* visits_ = nullptr;
};

}  // namespace llamalloc
