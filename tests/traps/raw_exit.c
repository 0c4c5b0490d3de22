/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that end by the system call exit, so that no destructor runs. They are joined, and glibc
   unmaps their stacks with the thread-local variables on them, as it keeps none of that size. An
   allocator that then looks for the thread falls over. */
#include <sys/syscall.h>

#include "trap.h"

enum { kThreads = 8, kRounds = 3, kObjects = 20000, kStackMib = 48 };

static void* vanish(void* given) {
  churn((uint64_t)(uintptr_t)given, 5000, NULL);
  syscall(SYS_exit, 0);
  return NULL;
}

static void run_threads(int round) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)kStackMib << 20);
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) {
    const int error = pthread_create(&threads[i], &attributes, vanish, (void*)(i + round));
    if (error != 0) die("pthread_create: %s", strerror(error));
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

/* Frees go on, so that a background thread has reason to look at all threads. */
static void make_room(void) {
  static unsigned char* objects[kObjects];
  for (size_t i = 0; i < kObjects; ++i) objects[i] = filled(1000, (unsigned char)i);
  for (size_t i = 0; i < kObjects; ++i) check_and_free(objects[i], 1000, (unsigned char)i);
}

int main(void) {
  for (int round = 0; round < kRounds; ++round) {
    make_room();
    run_threads(round);
    usleep(1300000);
    churn(round, 1000, NULL);
  }
  printf("%d threads vanished\n", kRounds * kThreads);
  return 0;
}
