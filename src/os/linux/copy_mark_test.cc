// SPDX-License-Identifier: Apache-2.0
#include "os/copy_mark.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "os/fake/answered_calls.h"

namespace llamalloc {
namespace {

CopyMark mark;

int status_of(pid_t child) {
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 0: no copy, 1: a copy.
int seen_by_a_child_of(unsigned long flags) {
  const auto child = static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
  if (child == 0) _exit(mark.is_in_copy());
  return status_of(child);
}

int seen_by_a_child_that_shares_memory(void*) {
  return mark.is_in_copy();
}

TEST(CopyMarkTest, TellsAChildOfABareCallUntilItIsSetThere) {
  EXPECT_FALSE(mark.is_in_copy()) << "never set";
  errno = EDOM;
  ASSERT_TRUE(mark.set());
  EXPECT_EQ(errno, EDOM);
  EXPECT_FALSE(mark.is_in_copy());
  EXPECT_EQ(seen_by_a_child_of(0), 1);
  EXPECT_FALSE(mark.is_in_copy()) << "the parent";
  const pid_t child = fork();
  if (child == 0) {
    if (!mark.is_in_copy() || !mark.set() || mark.is_in_copy()) _exit(2);
    _exit(seen_by_a_child_of(0));
  }
  EXPECT_EQ(status_of(child), 1) << "its own children, too, have copies";
}

TEST(CopyMarkTest, AChildThatSharesTheMemoryHasNoCopy) {
  ASSERT_TRUE(mark.set());
  alignas(16) static char stack[64 * 1024];
  const pid_t child = clone(seen_by_a_child_that_shares_memory, stack + sizeof(stack),
                            CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
  EXPECT_EQ(status_of(child), 0);
}

TEST(CopyMarkTest, WhereTheSystemCannotTellNothingIsACopy) {
  const pid_t child = fork();
  if (child == 0) {
    CopyMark untold;
    if (!refuse_advice(MADV_WIPEONFORK, EINVAL)) _exit(2);
    if (untold.set() || untold.is_in_copy()) _exit(3);
    _exit(0);
  }
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
}  // namespace llamalloc
