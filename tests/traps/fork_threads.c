/* SPDX-License-Identifier: Apache-2.0 */
/* Forks while threads are inside malloc and free; each child allocates and starts a thread. */
#include "trap.h"

enum { kThreads = 3, kForks = 150 };
static volatile int stop;

static void* work(void* seed) {
  churn((uintptr_t)seed, 1L << 60, &stop);
  return NULL;
}

static void* work_in_child(void* seed) {
  churn((uintptr_t)seed, 300, NULL);
  return NULL;
}

static void be_child(uintptr_t seed, unsigned char* inherited) {
  alarm(10);
  churn(seed, 300, NULL);
  pthread_join(start(work_in_child, (void*)(seed + 1)), NULL);
  check_and_free(inherited, 777, 7);
  exit(0);
}

int main(void) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) threads[i] = start(work, (void*)(i + 1));
  for (uintptr_t i = 0; i < kForks; ++i) {
    unsigned char* inherited = filled(777, 7);
    pid_t child = fork();
    if (child == 0) be_child(100 + i, inherited);
    expect_good_end(child);
    check_and_free(inherited, 777, 7);
  }
  stop = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%d forks\n", kForks);
  return 0;
}
