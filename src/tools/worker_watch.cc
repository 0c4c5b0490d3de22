// SPDX-License-Identifier: Apache-2.0
#include "tools/worker_watch.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>

#include "tools/replay_steps.h"

namespace llamalloc {
namespace {

constinit std::atomic<WorkerWatch*> watching{nullptr};
constinit thread_local bool is_own = false;
constinit thread_local WorkerWatch* in_step = nullptr;  // of the background thread

using SystemCall = long(long number, long, long, long, long, long, long);

// Of the C library; first asked for as the preloaded library starts, in one thread.
constinit SystemCall* real = nullptr;

SystemCall* system_call() {
  if (real == nullptr) real = reinterpret_cast<SystemCall*>(dlsym(RTLD_NEXT, "syscall"));
  return real;
}

void wait(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

}  // namespace

void WorkerWatch::start() {
  visits_ = pages_for<WorkerVisit>(kMost);
  sem_init(&stage_, 0, 0);
  ignore_this_thread();
  watching.store(this, std::memory_order_release);
}

void WorkerWatch::stop() {
  watching.store(nullptr, std::memory_order_release);
  sem_post(&stage_);
}

void WorkerWatch::ignore_this_thread() {
  is_own = true;
}

void WorkerWatch::leave() {
  sem_post(&stage_);
}

// The background thread first, if it waits.
void WorkerWatch::enter() {
  while (waits_.load(std::memory_order_relaxed)) sched_yield();
  wait(&stage_);
}

void WorkerWatch::begin_step() {
  waits_.store(true, std::memory_order_relaxed);
  wait(&stage_);
  waits_.store(false, std::memory_order_relaxed);
  in_step = this;
}

void WorkerWatch::end_step() {
  in_step = nullptr;
  sem_post(&stage_);
}

void WorkerWatch::note(uint64_t at) {
  if (count_ < kMost) visits_[count_] = {events_, at};
  ++count_;
}

}  // namespace llamalloc

using llamalloc::in_step;
using llamalloc::is_own;
using llamalloc::system_call;
using llamalloc::WorkerWatch;

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const bool begins = clock == CLOCK_MONOTONIC && !is_own && in_step == nullptr;
  WorkerWatch* watch = begins ? llamalloc::watching.load(std::memory_order_acquire) : nullptr;
  if (watch != nullptr) watch->begin_step();
  const auto result = static_cast<int>(
      system_call()(SYS_clock_gettime, clock, reinterpret_cast<long>(time), 0, 0, 0, 0));
  if (watch != nullptr) watch->note(time->tv_sec * uint64_t{1'000'000'000} + time->tv_nsec);
  return result;
}

// As the C library's: six arguments, whether the call has so many or not.
extern "C" long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (in_step != nullptr && number == SYS_futex) in_step->end_step();
  return system_call()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
