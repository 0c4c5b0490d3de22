/* SPDX-License-Identifier: Apache-2.0 */
/* malloc and free in the handler of a timer that fires all the time, in a thread that allocates. */
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

int main(void) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, NULL);
  time_t end = time(NULL) + 3;
  uint64_t seed = 1;
  while (time(NULL) < end) churn(seed++, 3000, NULL);
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%ld signals\n", signals);
  return signals > 1000 ? 0 : 1;
}
