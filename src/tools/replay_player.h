// SPDX-License-Identifier: Apache-2.0
// Plays the steps of a trace, each in a thread of its own number, in the trace's order.
//
//   thread 3: step step step --post--> thread 5: step step --post--> thread 3: step ...
//
// One thread at a time has the turn and passes it on. A thread begins with its first step and ends
// after its last, before the next event, as in the simulation; the main thread plays the thread of
// the first step and stays. Stacks are resident before the first sample, so that they count as
// nothing.
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "tools/replay_clock.h"
#include "tools/replay_steps.h"
#include "tools/worker_watch.h"

namespace llamalloc {

struct ReplaySample {
  uint64_t time;
  uint64_t live;
  uint64_t resident;
  uint64_t huge;
};

// What the process has resident, anonymous memory only: pages of files come as code first runs.
ReplaySample look_at_memory();

class ReplayPlayer {
 public:
  ReplayPlayer(const Steps& steps, size_t samples, double speed);

  // Until the end of the trace.
  void run();
  const WorkerWatch& worker() const { return worker_; }
  const ReplayClock& clock() const { return clock_; }
  const ReplaySample* samples() const { return samples_; }
  const ReplaySample& before() const { return before_; }

 private:
  struct Thread {
    ReplayPlayer* player;
    sem_t turn;
    size_t last_step;  // plus 1
    bool begun;
  };

  static void* thread_main(void* thread);
  static void thread_ends(void* thread);
  void play(Thread* thread);
  void play_in_a_row(uint16_t number);
  void pass_on();
  void begin(Thread* thread);
  void apply(const Step& step);
  void wait_until(uint64_t time);
  void sample_until(uint64_t time);
  uint64_t due(size_t sample) const;

  Steps steps_;
  size_t sample_count_;
  ReplayClock clock_;
  Thread* threads_;
  char* stacks_;
  void** objects_;
  uint64_t* sizes_;
  ReplaySample* samples_;
  ReplaySample before_{};
  sem_t done_;
  pthread_key_t at_exit_{};
  WorkerWatch worker_;
  size_t next_ = 0;          // step
  size_t sampled_ = 0;       // samples taken
  uint64_t waited_for_ = 0;  // time of the trace
  uint64_t live_ = 0;
};

}  // namespace llamalloc
