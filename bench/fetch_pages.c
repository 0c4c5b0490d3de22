/* SPDX-License-Identifier: Apache-2.0 */
/* What a huge page costs that went back to the system and is fetched again, by how long it was
   away: docs/measuring_memory.md.
     cc -O1 bench/fetch_pages.c -o build/fetch_pages && build/fetch_pages
   It touches 256 huge pages, gives them back, waits, and touches them again. On a virtual machine
   whose host takes back free memory, the host has to find memory again after a long wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { kPages = 256, kHuge = 2 << 20, kRounds = 5, kMadviseHuge = 14 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Microseconds that the first store to each page takes: the median, and the mean. */
static void touch(volatile char* pages, double* median, double* mean) {
  double times[kPages], sum = 0;
  for (int i = 0; i < kPages; ++i) {
    const double start = now();
    pages[(size_t)i * kHuge] = 1;
    times[i] = (now() - start) * 1e6;
    sum += times[i];
  }
  qsort(times, kPages, sizeof(double), ascending);
  *median = times[kPages / 2];
  *mean = sum / kPages;
}

/* In huge pages; -1: this kernel does not say. */
static long huge_pages(void) {
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  char line[128];
  long kilobytes = -1;
  while (file != NULL && fgets(line, sizeof(line), file) != NULL)
    if (sscanf(line, "AnonHugePages: %ld", &kilobytes) == 1) break;
  if (file != NULL) fclose(file);
  return kilobytes < 0 ? -1 : kilobytes / (kHuge >> 10);
}

int main(void) {
  static const int kAway[] = {0, 1, 5};
  const size_t bytes = (size_t)kPages * kHuge;
  char* room =
      mmap(NULL, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    perror("fetch_pages: 514 MiB");
    return 2;
  }
  char* pages = room + (kHuge - (size_t)room % kHuge) % kHuge;
  madvise(pages, bytes, kMadviseHuge);
  double median, mean;
  touch(pages, &median, &mean);
  const long found = huge_pages();
  if (found >= 0 && found < kPages / 2) {
    fprintf(stderr, "fetch_pages: %ld of %d pages are huge: are huge pages switched off?\n", found,
            kPages);
    return 2;
  }
  printf("us a page of 2 MiB          median     mean\n");
  printf("the first time            %8.0f %8.0f\n", median, mean);
  for (size_t i = 0; i < sizeof(kAway) / sizeof(*kAway); ++i)
    for (int round = 1; round <= kRounds; ++round) {
      madvise(pages, bytes, MADV_DONTNEED);
      nanosleep(&(struct timespec){kAway[i], 0}, NULL);
      touch(pages, &median, &mean);
      printf("away for %d s, round %d     %8.0f %8.0f\n", kAway[i], round, median, mean);
      fflush(stdout);
    }
  return 0;
}
