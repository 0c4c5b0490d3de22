// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_write.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/blocked_signals.h"

namespace llamalloc {
namespace {

class QuietWriteTest : public testing::Test {
 protected:
  QuietWriteTest() { EXPECT_EQ(pipe(ends_), 0); }
  ~QuietWriteTest() override {
    if (ends_[0] >= 0) close(ends_[0]);
    close(ends_[1]);
  }
  void end_reader() {
    close(ends_[0]);
    ends_[0] = -1;
  }
  static bool is_pending() {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
  }
  static bool is_blocked() {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, SIGPIPE) == 1;
  }

  int ends_[2];
};

TEST_F(QuietWriteTest, WritesAsWrite) {
  char text[4] = "";
  EXPECT_EQ(write_quietly(ends_[1], "abc", 3), 3);
  EXPECT_EQ(read(ends_[0], text, 3), 3);
  EXPECT_STREQ(text, "abc");
  EXPECT_EQ(write_quietly(-1, "abc", 3), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(QuietWriteTest, NoSignalWithoutAReader) {
  end_reader();
  EXPECT_EQ(write_quietly(ends_[1], "abc", 3), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_FALSE(is_pending());
  EXPECT_FALSE(is_blocked());
}

TEST_F(QuietWriteTest, ASignalThatWaitsAlreadyIsLeftAlone) {
  const BlockedSignals here(kPipeSignal);
  raise(SIGPIPE);
  end_reader();
  EXPECT_EQ(write_quietly(ends_[1], "abc", 3), -1);
  EXPECT_TRUE(is_pending());
  EXPECT_TRUE(is_blocked());
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  const timespec now{};
  EXPECT_EQ(sigtimedwait(&pipe_signal, nullptr, &now), SIGPIPE);
}

TEST(BlockedSignalsTest, FaultsStayUnblocked) {
  sigset_t before, mask, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    errno = 7;
    const BlockedSignals here(kSignalsFromOutside);
    EXPECT_EQ(errno, 7);
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number : {SIGALRM, SIGCHLD, SIGUSR1, SIGPIPE, SIGTERM, SIGPROF, SIGRTMAX})
    EXPECT_EQ(sigismember(&mask, number), 1) << number;
  for (int number : {SIGSEGV, SIGBUS, SIGSYS}) EXPECT_EQ(sigismember(&mask, number), 0) << number;
  for (int number = 1; number < 65; ++number)
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number)) << number;
}

}  // namespace
}  // namespace llamalloc
