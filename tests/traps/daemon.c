/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon: 160 MiB are freed, then it forks, the parent ends, and the child makes few calls. The
   memory comes back, as it would have in the parent. */
#include <time.h>

#include "trap.h"

enum { kObjects = 40000, kSize = 4000, kMost = 40 << 10 };

static unsigned char* p[kObjects];

static void serve(void) {
  const time_t end = time(NULL) + 15;
  while (rss_kib() > kMost && time(NULL) < end) {
    check_and_free(filled(100, 1), 100, 1);
    usleep(100000);
  }
  printf("%ld MiB\n", rss_kib() >> 10);
  if (rss_kib() > kMost) die("%ld MiB are left", rss_kib() >> 10);
}

int main(void) {
  for (int i = 0; i < kObjects; ++i) p[i] = filled(kSize, 1);
  for (int i = 0; i < kObjects; ++i) check_and_free(p[i], kSize, 1);
  pid_t child = fork();
  if (child == 0) {
    serve();
    return 0;
  }
  expect_good_end(child);
  return 0;
}
