// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_exit.h"

#include <limits.h>
#include <pthread.h>

#include <atomic>

#include "runtime/process.h"

namespace llamalloc {
namespace {

constinit pthread_key_t exit_key{};
constinit std::atomic<bool> key_made{false};
constinit thread_local int exit_rounds __attribute__((tls_model("initial-exec"))) = 0;

// Comes again in each round, also where nothing was allocated meanwhile: else nobody would know
// when the last round is over.
void thread_ends(void*) {
  ++exit_rounds;
  process.end_thread(cache_slot, adopted_cache);
  if (!thread_is_past_exit()) pthread_setspecific(exit_key, &exit_rounds);
}

}  // namespace

void prepare_thread_exit() {
  key_made.store(pthread_key_create(&exit_key, thread_ends) == 0, std::memory_order_release);
  // A library that is initialised before us has allocated, and may have started threads. They are
  // announced when they next allocate.
  if (adopted_cache != nullptr) process.announce(adopted_cache);
  process.threads.wake_all();
}

bool call_at_thread_exit() {
  return key_made.load(std::memory_order_acquire) &&
         pthread_setspecific(exit_key, adopted_cache) == 0;
}

// Two rounds less than the system calls: a thread may have its first cache in the second round,
// after the system came by our key.
bool thread_is_past_exit() {
  return exit_rounds >= PTHREAD_DESTRUCTOR_ITERATIONS - 2;
}

}  // namespace llamalloc
