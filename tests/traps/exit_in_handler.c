/* SPDX-License-Identifier: Apache-2.0 */
/* Processes whose timer goes off inside malloc and free, and whose handler calls exit. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include "trap.h"

enum { kRounds = 1000, kLongest = 3000, kSeconds = 10 }; /* processes; microseconds */

static void handler(int number) {
  (void)number;
  exit(0);
}

static void end_in_malloc(int round) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct itimerval once = {{0, 0}, {0, 100 + round * 7 % kLongest}};
  setitimer(ITIMER_REAL, &once, NULL);
  for (;;) allocate_a_little();
}

int main(void) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGALRM, &action, NULL);
  for (int round = 0; round < kRounds; ++round) {
    const pid_t child = fork();
    if (child == 0) end_in_malloc(round);
    int left = kSeconds * 1000, status = 0;
    while (left > 0 && waitpid(child, &status, WNOHANG) == 0) usleep(1000), --left;
    if (left == 0) {
      kill(child, SIGKILL);
      die("exit in a handler hangs, round %d", round);
    }
    if (status != 0) die("a child ended with status %d", status);
  }
  printf("%d exits in handlers\n", kRounds);
  return 0;
}
