/* SPDX-License-Identifier: Apache-2.0 */
/* The main thread forks in the handler of a timer that goes off inside malloc and free. POSIX let a
   handler do so until 2024. */
#include <signal.h>
#include <sys/time.h>

#include "trap.h"

enum { kRounds = 3000, kLongest = 150 }; /* timers; microseconds */
static volatile long forks;

static void handler(int number) {
  int saved = errno;
  (void)number;
  pid_t child = fork();
  if (child == 0) _exit(0);
  expect_good_end(child);
  ++forks;
  errno = saved;
}

int main(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  for (int i = 0; i < kRounds; ++i) {
    struct itimerval once = {{0, 0}, {0, 1 + i % kLongest}};
    setitimer(ITIMER_REAL, &once, NULL);
    churn((uint64_t)i, 100, NULL);
    if (i % 50 == 0) allocate_a_little();
  }
  printf("%ld forks in handlers\n", forks);
  return forks > kRounds / 10 ? 0 : 1;
}
