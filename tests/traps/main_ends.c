/* SPDX-License-Identifier: Apache-2.0 */
/* The main thread ends by pthread_exit. The process ends with its last thread, which frees so much
   that an allocator may want a thread of its own. */
#include "trap.h"

static void say_the_end(void) {
  printf("exit handlers ran\n");
}

static void* free_much(void* unused) {
  enum { kObjects = 20000 };
  static unsigned char* p[kObjects];
  for (int i = 0; i < kObjects; ++i) p[i] = filled(1000, 1);
  for (int i = 0; i < kObjects; ++i) free(p[i]);
  usleep(200000);
  return unused;
}

int main(void) {
  atexit(say_the_end);
  pthread_detach(start(free_much, NULL));
  pthread_exit(NULL);
}
