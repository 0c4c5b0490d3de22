/* SPDX-License-Identifier: Apache-2.0 */
/* 10,000 short threads, four at a time, that leave objects to others. RSS stays flat. */
#include "trap.h"

enum { kThreads = 10000, kWarm = 1000, kAtOnce = 4, kObjects = 30 };

static void* work(void* given) {
  unsigned char** objects = given;
  for (size_t i = 0; i < kObjects; ++i) {
    if (objects[i] != NULL) check_and_free(objects[i], 10 + 50 * i, (unsigned char)i);
    objects[i] = filled(10 + 50 * i, (unsigned char)i);
  }
  return NULL;
}

int main(void) {
  static unsigned char* objects[kAtOnce][kObjects];
  long warm = 0;
  for (int i = 0; i < kThreads; i += kAtOnce) {
    pthread_t threads[kAtOnce];
    for (int j = 0; j < kAtOnce; ++j)
      threads[j] = start(work, objects[(i / kAtOnce + j) % kAtOnce]);
    for (int j = 0; j < kAtOnce; ++j) pthread_join(threads[j], NULL);
    if (i == kWarm) warm = rss_kib();
  }
  long grown = rss_kib() - warm;
  printf("%ld KiB more after %d threads\n", grown, kThreads - kWarm);
  return grown < 4096 ? 0 : 1;
}
