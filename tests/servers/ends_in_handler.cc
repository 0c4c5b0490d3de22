// SPDX-License-Identifier: Apache-2.0
// Children whose timer goes off while they allocate under ever new call stacks, so that under the
// recording library they often hold a lock of it; the handler ends them by _exit.
//
//   ends_in_handler CHILDREN
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kSeconds = 10;  // a child that has not ended by then hangs
constexpr int kStatus = 7;
constexpr int kShortest = 500, kLongest = 20'000;  // until the timer goes off, in microseconds

[[gnu::noinline]] void* by_stack(unsigned depth, unsigned way);

[[gnu::noinline]] void* by_other_stack(unsigned depth, unsigned way) {
  void* p = by_stack(depth, way);
  asm volatile("");  // no tail call, which would leave no trace on the stack
  return p;
}

[[gnu::noinline]] void* by_stack(unsigned depth, unsigned way) {
  if (depth == 0) return malloc(100);
  void* p = (way & 1) ? by_stack(depth - 1, way >> 1) : by_other_stack(depth - 1, way >> 1);
  asm volatile("");
  return p;
}

[[noreturn]] void be_child(int number) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGALRM, [](int) { _exit(kStatus); });
  const itimerval once = {{0, 0}, {0, kShortest + number * 97 % kLongest}};
  setitimer(ITIMER_REAL, &once, nullptr);
  for (unsigned way = static_cast<unsigned>(number) << 16;; ++way)
    free(by_stack(20, way * 2654435761u >> 8));
}

bool ends(pid_t child) {
  for (int left = kSeconds * 1000; left > 0; --left) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == kStatus;
    usleep(1000);
  }
  kill(child, SIGKILL);
  return false;
}

}  // namespace

int main(int, char** argv) {
  for (int i = 0; i < atoi(argv[1]); ++i) {
    const pid_t child = fork();
    if (child == 0) be_child(i);
    if (!ends(child)) return fprintf(stderr, "child %d does not end as it should\n", i), 1;
  }
  return 0;
}
