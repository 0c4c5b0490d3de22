// SPDX-License-Identifier: Apache-2.0
#include "tools/replay_player.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace llamalloc {
namespace {

using trace::EventKind;

constexpr uint64_t kCloseEvents = 100'000;  // nanoseconds; within them the clock is read seldom
constexpr size_t kStack = 64 << 10;

uint64_t field(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at ? strtoull(at + strlen(name), nullptr, 10) * 1024 : 0;
}

void touch(void* object, size_t from, size_t size) {
  volatile char* bytes = static_cast<char*>(object);
  for (size_t i = from; i < size; i += 4096) bytes[i] = 1;
  if (size > 0) bytes[size - 1] = 1;
}

void wait(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

void* allocate(const Step& step) {
  if (step.alignment_log2 <= 4) return malloc(step.size);
  return memalign(size_t{1} << step.alignment_log2, step.size);
}

}  // namespace

// Without the allocator: open and read.
ReplaySample look_at_memory() {
  static char text[4096];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY);
  const ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  if (size <= 0) stop_replay(1, "/proc/self/smaps_rollup cannot be read", "it needs Linux 4.14");
  close(file);
  text[size] = 0;
  return {0, 0, field(text, "\nAnonymous:"), field(text, "\nAnonHugePages:")};
}

ReplayPlayer::ReplayPlayer(const Steps& steps, size_t samples, double speed)
    : steps_(steps),
      sample_count_(samples),
      clock_(steps.duration, speed),
      threads_(pages_for<Thread>(steps.threads)),
      stacks_(pages_for<char>(steps.threads * kStack)),
      objects_(pages_for<void*>(steps.slots)),
      sizes_(pages_for<uint64_t>(steps.slots)),
      samples_(pages_for<ReplaySample>(samples)) {
  sem_init(&done_, 0, 0);
  pthread_key_create(&at_exit_, thread_ends);
  for (size_t t = 0; t < steps.threads; ++t) {
    threads_[t].player = this;
    sem_init(&threads_[t].turn, 0, 0);
  }
  for (size_t i = 0; i < steps.count; ++i) threads_[steps.steps[i].thread].last_step = i + 1;
}

void ReplayPlayer::run() {
  worker_.start();
  before_ = look_at_memory();
  clock_.start();
  if (steps_.count != 0) {
    Thread* mine = &threads_[steps_.steps[0].thread];
    mine->begun = true;
    sem_post(&mine->turn);
    play(mine);
    pass_on();
    wait(&done_);
  }
  worker_.events_are_over(steps_.count);
  sample_until(UINT64_MAX);
  clock_.reach(steps_.duration);
  worker_.stop();
}

void* ReplayPlayer::thread_main(void* argument) {
  auto* thread = static_cast<Thread*>(argument);
  WorkerWatch::ignore_this_thread();
  thread->player->play(thread);
  pthread_setspecific(thread->player->at_exit_, thread);
  return nullptr;
}

// Keys end in the order in which they were made: the allocator's, which retires the thread's cache,
// before this one.
void ReplayPlayer::thread_ends(void* thread) {
  static_cast<Thread*>(thread)->player->pass_on();
}

// Returns with the turn, when the thread has nothing more to do.
void ReplayPlayer::play(Thread* thread) {
  while (true) {
    wait(&thread->turn);
    play_in_a_row(static_cast<uint16_t>(thread - threads_));
    if (next_ < steps_.count) begin(&threads_[steps_.steps[next_].thread]);
    if (next_ >= thread->last_step) return;
    pass_on();
  }
}

void ReplayPlayer::play_in_a_row(uint16_t number) {
  for (; next_ < steps_.count && steps_.steps[next_].thread == number; ++next_) {
    const Step& step = steps_.steps[next_];
    worker_.events_are_over(next_);
    sample_until(step.time);
    if (next_ % 16 == 0 || step.time - waited_for_ > kCloseEvents) wait_until(step.time);
    clock_.reach(step.time);
    apply(step);
  }
}

// The background thread may come meanwhile.
void ReplayPlayer::wait_until(uint64_t time) {
  waited_for_ = time;
  if (!clock_.is_early(time)) return;
  worker_.leave();
  clock_.sleep_until(time);
  worker_.enter();
}

void ReplayPlayer::pass_on() {
  sem_post(next_ == steps_.count ? &done_ : &threads_[steps_.steps[next_].thread].turn);
}

// Unless it has begun. Joinable, and nobody joins it: what the C library has of it stays.
void ReplayPlayer::begin(Thread* thread) {
  if (thread->begun) return;
  thread->begun = true;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stacks_ + (thread - threads_) * kStack, kStack);
  pthread_t handle;
  if (pthread_create(&handle, &attributes, thread_main, thread) != 0)
    stop_replay(1, "the system refuses a thread", "raise `ulimit -u`");
  pthread_attr_destroy(&attributes);
}

void ReplayPlayer::apply(const Step& step) {
  void*& object = objects_[step.slot];
  uint64_t& size = sizes_[step.slot];
  if (step.kind == EventKind::free) {
    free(object);
    live_ -= size;
    return;
  }
  if (step.kind == EventKind::allocate) size = 0, object = nullptr;
  // realloc of no bytes would free the object.
  void* made = object ? realloc(object, step.size ? step.size : 1) : allocate(step);
  if (made == nullptr) stop_replay(1, "out of memory", "replay a part: llamalloc trace cut");
  object = made;
  touch(object, size < step.size ? size : 0, step.size);
  live_ += step.size - size;
  size = step.size;
}

uint64_t ReplayPlayer::due(size_t sample) const {
  return static_cast<uint64_t>(static_cast<double>(steps_.duration) *
                               static_cast<double>(sample + 1) /
                               static_cast<double>(sample_count_));
}

void ReplayPlayer::sample_until(uint64_t time) {
  for (; sampled_ < sample_count_ && due(sampled_) < time; ++sampled_) {
    wait_until(due(sampled_));
    clock_.reach(due(sampled_));
    samples_[sampled_] = look_at_memory();
    samples_[sampled_].time = due(sampled_);
    samples_[sampled_].live = live_;
  }
}

}  // namespace llamalloc
