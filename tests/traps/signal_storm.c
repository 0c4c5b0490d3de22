/* SPDX-License-Identifier: Apache-2.0 */
/* malloc and free in the handler of a timer that fires all the time, in a thread that allocates.
     signal_storm outside|inside
   outside: the signal is blocked during calls of malloc and free, so that it comes between them.
   inside: it comes at any time; POSIX has no promise for that, and nobody keeps one. */
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "trap.h"

static volatile long signals;

static void handler(int number) {
  int saved = errno;
  (void)number;
  unsigned char* p[4];
  for (size_t i = 0; i < 4; ++i) p[i] = filled(40 * (i + 1), (unsigned char)i);
  for (size_t i = 0; i < 4; ++i) check_and_free(p[i], 40 * (i + 1), (unsigned char)i);
  ++signals;
  errno = saved;
}

int main(int argc, char** argv) {
  if (argc != 2) die("usage: %s outside|inside", argv[0]);
  const int inside = strcmp(argv[1], "inside") == 0;
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  struct itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, NULL);
  time_t end = time(NULL) + 2;
  for (uint64_t seed = 1; time(NULL) < end; ++seed) {
    if (!inside) sigprocmask(SIG_BLOCK, &alarm_only, NULL);
    churn(seed, 200, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
  }
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%ld signals\n", signals);
  return signals > 500 ? 0 : 1;
}
