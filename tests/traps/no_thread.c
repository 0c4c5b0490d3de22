/* SPDX-License-Identifier: Apache-2.0 */
/* Address space for another thread is missing when much is freed, and there again later: then the
   memory comes back, at once in a forked child, and within half a minute here. */
#include <sys/resource.h>
#include <time.h>

#include "trap.h"

enum { kObjects = 40000, kSize = 4000, kMost = 40 << 10 };

static unsigned char* p[kObjects];

static void limit_address_space(rlim_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0) die("getrlimit: %s", strerror(errno));
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("setrlimit: %s", strerror(errno));
}

static void free_half(int first) {
  for (int i = first; i < kObjects; i += 2) free(p[i]);
}

static void expect_memory_back(const char* where, int seconds) {
  const time_t end = time(NULL) + seconds;
  while (rss_kib() > kMost && time(NULL) < end) {
    allocate_a_little();
    usleep(100000);
  }
  if (rss_kib() > kMost) die("%s, %ld MiB are left", where, rss_kib() >> 10);
}

int main(void) {
  for (int i = 0; i < kObjects; ++i) p[i] = filled(kSize, 1);
  limit_address_space(1);
  free_half(0);
  free_half(1);
  limit_address_space(RLIM_INFINITY);
  pid_t child = fork();
  if (child == 0) {
    expect_memory_back("in the child", 8);
    _exit(0);
  }
  expect_good_end(child);
  expect_memory_back("in the end", 30);
  printf("%ld MiB\n", rss_kib() >> 10);
  return 0;
}
