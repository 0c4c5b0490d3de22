// SPDX-License-Identifier: Apache-2.0
#include "recorder/recorder_state.h"

#include <gtest/gtest.h>

#include <thread>

namespace llamalloc {
namespace {

constinit Recorder starting(system_pages);  // nothing opens it

ThreadLog* attached_in_a_new_thread(bool holds_a_lock) {
  ThreadLog* log = nullptr;
  std::thread([&] {
    Lock lock(LockRank::pool);
    if (holds_a_lock) {
      LockGuard guard(lock);
      log = starting.attach();
    } else {
      log = starting.attach();
    }
    current_log = nullptr;
  }).join();
  return log;
}

// As a signal handler that interrupted the recorder or the allocator, which would wait for itself.
TEST(RecorderTest, AThreadThatHoldsALockGetsNoLog) {
  EXPECT_EQ(attached_in_a_new_thread(true), nullptr);
  EXPECT_NE(attached_in_a_new_thread(false), nullptr);
}

}  // namespace
}  // namespace llamalloc
