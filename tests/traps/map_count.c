/* SPDX-License-Identifier: Apache-2.0 */
/* The process has as many mappings as the system allows, or a few fewer: no call may crash, and
   what was had before can be freed. Afterwards everything works as ever. */
#include <sys/mman.h>

#include "trap.h"

enum { kMost = 4 << 20, kLarge = 200, kLargeBytes = 3000000, kFew = 12 };
enum { kMostLeft = 400 * 1024, kMostWait = 50 };  // KiB; tenths of a second

static size_t use_mappings(char* space, size_t pages) {
  size_t made = 0;
  for (size_t i = 1; i < pages; i += 2, ++made)
    if (mprotect(space + i * 4096, 4096, PROT_READ) != 0) break;
  return made;
}

static void try_everything(int must) {
  static const size_t sizes[] = {32, 2000, 70000, 500000, 1200000, 9000000};
  void* p[300];
  for (int i = 0; i < 300; ++i) {
    p[i] = malloc(sizes[i % COUNT_OF(sizes)]);
    if (p[i] != NULL) memset(p[i], 1, sizes[i % COUNT_OF(sizes)]);
    if (p[i] == NULL && must) die("out of memory afterwards: %s", strerror(errno));
    if (i % 3 == 0) {
      void* q = realloc(p[i], 2500000);
      if (q != NULL) p[i] = q;
    }
  }
  for (int i = 299; i >= 0; --i) free(p[i]);
}

int main(void) {
  unsigned char* large[kLarge];
  for (int i = 0; i < kLarge; ++i) large[i] = filled(kLargeBytes, (unsigned char)i);
  const size_t bytes = (size_t)kMost * 4096 / 8;
  char* space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) die("mmap: %s", strerror(errno));
  size_t made = use_mappings(space, bytes / 4096);
  for (int i = 0; i < kLarge; i += 2) check_and_free(large[i], kLargeBytes, (unsigned char)i);
  try_everything(0);
  munmap(space, kFew * 8192);
  try_everything(0);
  for (int i = 1; i < kLarge; i += 2) check_and_free(large[i], kLargeBytes, (unsigned char)i);
  munmap(space + kFew * 8192, bytes - kFew * 8192);
  try_everything(1);
  // What is needed again and again is kept for a moment.
  long rss = rss_kib();
  for (int i = 0; i < kMostWait && rss >= kMostLeft; ++i) usleep(100000), rss = rss_kib();
  printf("%zu mappings made, then %ld KiB resident\n", 2 * made, rss);
  return made > 1000 && rss < kMostLeft ? 0 : 1;
}
