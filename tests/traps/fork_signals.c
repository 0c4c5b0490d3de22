/* SPDX-License-Identifier: Apache-2.0 */
/* Signals arrive all the time while a thread forks, and their handler allocates. So does a server
   that forks children and counts those that end, or one with a timer. Handlers interrupt fork only,
   never malloc. Fork handlers of the program find no signal blocked. */
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "trap.h"

enum { kRounds = 2000, kObjects = 100000 };
static pid_t parent;
static volatile sig_atomic_t handled, blocked;

/* Objects of many sizes, from caches of the thread to mappings; not touched, so that it is short.
 */
static void handler(int number) {
  static const size_t sizes[] = {1, 24, 100, 1000, 5000, 12000, 40000, 200000, 300000, 700000};
  void* p[COUNT_OF(sizes)];
  (void)number;
  for (size_t i = 0; i < COUNT_OF(sizes); ++i)
    if ((p[i] = malloc(sizes[i])) == NULL) die("no memory in a handler");
  for (size_t i = 0; i < COUNT_OF(sizes); ++i) free(p[i]);
  free(malloc(1500000));
  handled = handled + 1;
}

static void look_at_mask(void) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  if (sigismember(&mask, SIGUSR1)) blocked = 1;
}

/* Sends signals to the group, after pauses that differ. */
static pid_t start_sender(void) {
  pid_t sender = fork();
  if (sender != 0) return sender;
  signal(SIGUSR1, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (unsigned i = 0;; ++i) {
    kill(-parent, SIGUSR1);
    const struct timespec pause = {0, 1000 * (1 + i % 97)};
    nanosleep(&pause, NULL); /* so that a fork comes through between two signals */
  }
}

int main(void) {
  setpgid(0, 0);
  parent = getpid();
  for (int i = 0; i < kObjects; ++i) filled(100 + i % 900, 1);
  pthread_atfork(look_at_mask, look_at_mask, look_at_mask);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  pid_t sender = start_sender();
  for (int round = 0; round < kRounds; ++round) {
    pid_t child = fork();
    look_at_mask();
    if (child == 0) _exit(blocked);
    expect_good_end(child);
  }
  kill(sender, SIGKILL);
  waitpid(sender, NULL, 0);
  if (blocked) die("a signal is blocked outside of the library");
  printf("%d signals during %d forks\n", (int)handled, kRounds);
  return 0;
}
