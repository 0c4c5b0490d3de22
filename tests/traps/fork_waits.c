/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the allocator replaces a file, and the disk takes three seconds. A fork waits for
   that thread; who opens and closes streams meanwhile does not wait for the fork. */
#include <sys/syscall.h>
#include <time.h>

#include "trap.h"

static volatile int hangs, forked;

int rename(const char* from, const char* to) {
  if (!hangs) {
    hangs = 1;
    sleep(3);
  }
  return (int)syscall(SYS_rename, from, to);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void* fork_once(void* nothing) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  expect_good_end(child);
  forked = 1;
  return nothing;
}

int main(void) {
  for (int left = 1000; left > 0 && !hangs; --left) usleep(10000);
  if (!hangs) die("no thread writes");
  const double begun = now();
  pthread_t thread = start(fork_once, NULL);
  double longest = 0;
  while (!forked) {
    usleep(10000);
    const double before = now();
    FILE* file = fopen("/dev/null", "w");
    fclose(file);
    if (now() - before > longest) longest = now() - before;
  }
  pthread_join(thread, NULL);
  if (now() - begun < 1) die("the fork did not wait");
  if (longest > 1) die("fopen waited %.1f s", longest);
  printf("ok\n");
  return 0;
}
