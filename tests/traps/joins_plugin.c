/* SPDX-License-Identifier: Apache-2.0 */
/* Its constructor runs under the loader's lock, and waits for a thread that frees much and
   registers a fork handler: neither may take that lock. */
#include "trap.h"

static void do_nothing(void) {}

static void* free_much(void* unused) {
  enum { kObjects = 20000 };
  static unsigned char* p[kObjects];
  for (int i = 0; i < kObjects; ++i) p[i] = filled(1000, 1);
  for (int i = 0; i < kObjects; ++i) free(p[i]);
  pthread_atfork(do_nothing, do_nothing, do_nothing);
  return unused;
}

__attribute__((constructor)) static void wait_for_thread(void) {
  pthread_join(start(free_much, NULL), NULL);
}
