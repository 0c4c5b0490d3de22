/* SPDX-License-Identifier: Apache-2.0 */
/* vfork, whose child borrows our memory and allocates in it, and posix_spawn, from four threads. */
#include <spawn.h>

#include "trap.h"

extern char** environ;
enum { kThreads = 4, kRounds = 25 };

static void* work(void* seed) {
  char* arguments[] = {"true", NULL};
  for (int i = 0; i < kRounds; ++i) {
    unsigned char* volatile kept = filled(100, 5);
    pid_t child = vfork();
    if (child == 0) {
      free(filled(3000, 1));
      _exit(0);
    }
    expect_good_end(child);
    check_and_free(kept, 100, 5);
    if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) != 0) die("posix_spawn");
    expect_good_end(child);
    churn((uintptr_t)seed + i, 300, NULL);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) threads[i] = start(work, (void*)(i + 1));
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%d children\n", 2 * kThreads * kRounds);
  return 0;
}
