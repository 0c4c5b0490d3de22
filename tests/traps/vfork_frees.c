/* SPDX-License-Identifier: Apache-2.0 */
/* A child that shares our memory frees much of it and ends. The memory comes back, although a
   thread that the child started would have ended with it. */
#include <time.h>

#include "trap.h"

enum { kObjects = 40000, kSize = 4000, kMost = 40 << 10 };

static unsigned char* p[kObjects];

int main(void) {
  for (int i = 0; i < kObjects; ++i) p[i] = filled(kSize, 1);
  pid_t child = vfork();
  if (child == 0) {
    for (int i = 0; i < kObjects; ++i) free(p[i]);
    _exit(0);
  }
  expect_good_end(child);
  const time_t end = time(NULL) + 15;
  while (rss_kib() > kMost && time(NULL) < end) {
    allocate_a_little();
    usleep(100000);
  }
  printf("%ld MiB\n", rss_kib() >> 10);
  if (rss_kib() > kMost) die("%ld MiB are left", rss_kib() >> 10);
  return 0;
}
