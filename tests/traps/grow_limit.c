/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer grows and moves, where address space or writable memory is limited, or mremap is
   refused: it grows as with the C library, and no address space is lost, also where it cannot grow.
     grow_limit as|data|refused
   Or the limit is set while the process runs (later): two seconds afterwards no buffer takes more
   address space than it asks for. */
#include <sys/mman.h>
#include <sys/resource.h>

#include "seccomp.h"
#include "trap.h"

enum { kLimit = 1 << 30, kSmall = 300 << 20, kLarge = 600 << 20, kRounds = 20, kFailures = 200 };

static size_t space(void) {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  if (file == NULL || fscanf(file, "%zu", &pages) != 1) die("no /proc/self/statm");
  fclose(file);
  return pages * 4096;
}

static void grow_within_the_limit(void) {
  const struct rlimit limit = {kLimit, kLimit};
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("setrlimit: %s", strerror(errno));
  char* p = malloc(kSmall);
  if (p == NULL) die("no 300 MiB");
  p[0] = 1;
  char* q = realloc(p, kLarge);
  if (q == NULL) die("300 MiB do not grow to 600 MiB within 1 GiB");
  if (q[0] != 1) die("what it held is lost");
  free(q);
  q = malloc(kLarge);
  if (q == NULL) die("600 MiB were there, and are not after free");
  free(q);
}

static size_t mappings(void) {
  char text[512];
  size_t lines = 0;
  FILE* file = fopen("/proc/self/maps", "r");
  if (file == NULL) die("no /proc/self/maps");
  while (fgets(text, sizeof(text), file) != NULL) lines += strchr(text, '\n') != NULL;
  fclose(file);
  return lines;
}

static void fail_at_the_limit(void) {
  const struct rlimit limit = {kLimit, kLimit};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) die("setrlimit: %s", strerror(errno));
  char* p = malloc(kSmall);
  if (p == NULL) die("no 300 MiB");
  p[0] = 1;
  size_t lines = 0, bytes = 0;
  for (int i = 0; i < kFailures; ++i) {
    if (realloc(p, (size_t)2 << 30) != NULL) die("the limit does not hold");
    if (i == 0) lines = mappings(), bytes = space();
  }
  if (mappings() > lines + 5) die("%zu mappings more", mappings() - lines);
  if (space() > bytes + kSmall) die("%zu MiB more", (space() - bytes) >> 20);
  if ((p = realloc(p, kLarge)) == NULL || p[0] != 1) die("300 MiB do not grow to 600 MiB");
  free(p);
}

static void grow_by_copies(void) {
  struct sock_filter code[] = {
      LOAD(nr),
      IS(SYS_mremap, 1),
      GIVE(SECCOMP_RET_ERRNO | EPERM),
      GIVE(SECCOMP_RET_ALLOW),
  };
  install_filter(code, COUNT_OF(code), 0);
  size_t first = 0;
  for (int round = 0; round < kRounds; ++round) {
    void* p = NULL;
    for (size_t size = 4 << 20; size <= (size_t)64 << 20; size *= 2)
      if ((p = realloc(p, size)) == NULL) die("realloc failed");
    free(p);
    if (round == 1) first = space();
  }
  const size_t last = space();
  if (last > first + ((size_t)256 << 20)) die("%zu MiB more", (last - first) >> 20);
}

/* How much address space a buffer of 20 MiB takes to become one of 40. */
static size_t space_to_grow(void) {
  char* p = malloc(20 << 20);
  const size_t before = space();
  if (p == NULL || (p = realloc(p, 40 << 20)) == NULL) die("no 40 MiB");
  const size_t taken = space() - before;
  free(p);
  return taken;
}

static void grow_later(void) {
  enum { kExact = (20 << 20) + (256 << 10) };
  const struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
  for (int i = 0; i < 3; ++i) allocate_a_little();
  const size_t at_first = space_to_grow();
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("setrlimit: %s", strerror(errno));
  for (int i = 0; i < 200; ++i) {
    allocate_a_little();
    usleep(10 * 1000);
  }
  const size_t then = space_to_grow();
  printf("%zu KiB, then %zu\n", at_first >> 10, then >> 10);
  if (then > kExact) die("20 MiB more take %zu KiB", then >> 10);
}

int main(int argc, char** argv) {
  if (argc != 2) die("usage: %s as|data|refused|later", argv[0]);
  if (strcmp(argv[1], "as") == 0)
    grow_within_the_limit();
  else if (strcmp(argv[1], "data") == 0)
    fail_at_the_limit();
  else if (strcmp(argv[1], "later") == 0)
    grow_later();
  else
    grow_by_copies();
  return 0;
}
