/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls make what is given back of a huge page leave the charge: docs/release.md. As root:
     cc -O1 bench/split_pages.c -o build/split_pages && build/split_pages
   Each way gets 64 huge pages in a control group of its own (version 1 or 2), keeps an eighth of
   each page, discards the rest, and reads the charge a second later. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kPages = 64, kHuge = 2 << 20, kSmall = 4096, kKept = kHuge / 8 };
enum { kFree = 8, kCold = 20, kPageOut = 21, kCollapse = 25 }; /* advice */

struct way {
  const char* name;
  int before, after; /* advice on a small page: a free one before the discard, a kept one after */
  int touch_protection;
};
static const struct way kWays[] = {
    {"discard alone", 0, 0, 0},        {"MADV_COLD before", kCold, 0, 0},
    {"MADV_FREE before", kFree, 0, 0}, {"MADV_PAGEOUT before", kPageOut, 0, 0},
    {"MADV_COLD after", 0, kCold, 0},  {"MADV_COLLAPSE after", 0, kCollapse, 0},
    {"mprotect after", 0, 0, 1},
};
static char group[128], usage[160], home[64];

static void put(const char* folder, const char* name, const char* text) {
  char path[192];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  int fd = open(path, O_WRONLY);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) {
    perror(path);
    exit(2);
  }
  close(fd);
}

static long charge(void) {
  char text[32] = "";
  int fd = open(usage, O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
    perror(usage);
    exit(2);
  }
  close(fd);
  return atol(text);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void enter_group(void) {
  const int old = access("/sys/fs/cgroup/memory", F_OK) == 0;
  snprintf(home, sizeof(home), "/sys/fs/cgroup%s", old ? "/memory" : "");
  snprintf(group, sizeof(group), "%s/split_pages_%d", home, (int)getpid());
  snprintf(usage, sizeof(usage), "%s/%s", group, old ? "memory.usage_in_bytes" : "memory.current");
  mkdir(group, 0755);
  put(group, "cgroup.procs", "0");
}

static void give_back(char* page, const struct way* way) {
  char* const kept = page + kHuge / 2;
  madvise(page, kHuge, MADV_NOHUGEPAGE);
  if (way->before) madvise(page, kSmall, way->before);
  madvise(page, kHuge / 2, MADV_DONTNEED);
  madvise(kept + kKept, kHuge / 2 - kKept, MADV_DONTNEED);
  if (way->after) madvise(kept, kSmall, way->after);
  if (!way->touch_protection) return;
  mprotect(kept, kSmall, PROT_READ);
  mprotect(kept, kSmall, PROT_READ | PROT_WRITE);
}

static void measure(const struct way* way) {
  char* space = mmap(NULL, (size_t)(kPages + 1) * kHuge, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char* first = (char*)(((size_t)space + kHuge - 1) & ~(size_t)(kHuge - 1));
  madvise(first, (size_t)kPages * kHuge, MADV_HUGEPAGE);
  memset(first, 7, (size_t)kPages * kHuge);
  const long before = charge();
  const double start = now();
  for (int i = 0; i < kPages; ++i) give_back(first + (size_t)i * kHuge, way);
  const double took = now() - start;
  sleep(1);
  const double left = (double)(before - charge()) / ((double)kPages * (kHuge - kKept));
  printf("%-22s %5.1f %% have left the charge, %6.0f us a page\n", way->name, 100 * left,
         took / kPages * 1e6);
  munmap(space, (size_t)(kPages + 1) * kHuge);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  enter_group();
  for (size_t i = 0; i < sizeof(kWays) / sizeof(*kWays); ++i) measure(&kWays[i]);
  put(home, "cgroup.procs", "0");
  return rmdir(group) != 0;
}
