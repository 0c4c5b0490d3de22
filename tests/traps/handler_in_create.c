/* SPDX-License-Identifier: Apache-2.0 */
/* A signal interrupts a thread at any point of pthread_create, and its handler allocates and frees
   so much that an allocator may want a thread of its own. Each time in a process of its own. */
#include <signal.h>
#include <sys/time.h>

#include "trap.h"

enum { kRounds = 4000, kMostWaits = 100000 };

static volatile sig_atomic_t done;

static void on_alarm(int number) {
  (void)number;
  free(filled(2 << 20, 1));
  done = 1;
}

static void* do_nothing(void* unused) {
  return unused;
}

static void be_child(int round) {
  const struct itimerval once = {{0, 0}, {0, 200 + round * 7919 % 1000}};
  signal(SIGALRM, on_alarm);
  setitimer(ITIMER_REAL, &once, NULL);
  while (!done) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0) pthread_join(thread, NULL);
  }
  _exit(0);
}

static void expect_end(pid_t child, int round) {
  for (int waits = 0; waits < kMostWaits; ++waits) {
    int status = 1;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child && status == 0) return;
    if (ended != 0) die("child %d ended with %d", round, status);
    usleep(50);
  }
  kill(child, SIGKILL);
  die("child %d hangs", round);
}

int main(void) {
  free(filled(100, 1));
  for (int round = 0; round < kRounds; ++round) {
    const pid_t child = fork();
    if (child == 0) be_child(round);
    expect_end(child, round);
  }
  printf("%d handlers\n", kRounds);
  return 0;
}
