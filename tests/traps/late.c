/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates in exit handlers and in the last destructors, while other threads go on allocating;
   some children leave by _exit in the middle of it. */
#include "trap.h"

enum { kChildren = 40 };
static unsigned char* early;

static void* work(void* seed) {
  churn((uintptr_t)seed, 1L << 60, NULL);
  return NULL;
}

static void at_exit(void) {
  allocate_a_little();
  churn(4, 500, NULL);
}

__attribute__((destructor(101))) static void last(void) {
  if (early != NULL) check_and_free(early, 500, 9);
  churn(5, 500, NULL);
}

int main(void) {
  for (int i = 0; i < kChildren; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      atexit(at_exit);
      early = filled(500, 9);
      start(work, (void*)1);
      start(work, (void*)2);
      usleep(2000);
      if (i % 4 == 3) _exit(0);
      if (i % 4 == 2) quick_exit(0);
      exit(0);
    }
    expect_good_end(child);
  }
  printf("%d ends\n", kChildren);
  return 0;
}
