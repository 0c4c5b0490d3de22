/* SPDX-License-Identifier: Apache-2.0 */
/* A signal interrupts the fork handlers of a fresh child, and its handler forks. The background
   thread is off: beside other threads glibc itself waits for ever then. */
#include <signal.h>
#include <sys/prctl.h>

#include "trap.h"

enum { kRounds = 1000, kSeconds = 10, kObjects = 200000 };
static pid_t parent;
static volatile sig_atomic_t entered;

static void handler(int number) {
  (void)number;
  if (getpid() == parent || entered) return;
  entered = 1;
  if (fork() == 0) _exit(0);
  _exit(0);
}

/* A child that sends signals to the group, at times that differ. */
static pid_t start_sender(int round) {
  pid_t sender = fork();
  if (sender != 0) return sender;
  signal(SIGUSR1, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    kill(-parent, SIGUSR1);
    for (volatile int wait = 0; wait < 300 + round % 50 * 40; ++wait) {
    }
  }
}

int main(void) {
  setpgid(0, 0);
  parent = getpid();
  for (int i = 0; i < kObjects; ++i) filled(100, 1); /* the more, the longer the handlers take */
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  for (int round = 0; round < kRounds; ++round) {
    pid_t sender = start_sender(round);
    pid_t child = fork();
    if (child == 0) _exit(0);
    int left = kSeconds * 1000, status = 0;
    while (left > 0 && waitpid(child, &status, WNOHANG) == 0) usleep(1000), --left;
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    if (left > 0) continue;
    kill(child, SIGKILL);
    die("a fresh child hangs in a handler that forks, round %d", round);
  }
  printf("%d children\n", kRounds);
  return 0;
}
