/* SPDX-License-Identifier: Apache-2.0 */
/* Starts with a limit of 1 GiB on address space (as) or on writable memory (data: what
   vm.overcommit_memory=2 counts as well), fills it, empties it, and goes on with threads.
     address_limit as|data */
#include <sys/resource.h>

#include "trap.h"

enum { kLimit = 1 << 30, kObject = 4000 };

static void* work(void* seed) {
  churn((uintptr_t)seed, 5000, NULL);
  return NULL;
}

static size_t fill_and_empty(size_t most) {
  void** last = NULL;
  size_t n = 0;
  while (n * kObject < most) {
    void** p = malloc(kObject);
    if (p == NULL) break;
    *p = last;
    last = p;
    ++n;
  }
  while (last != NULL) {
    void** p = last;
    last = *p;
    free(p);
  }
  return n * kObject;
}

int main(int argc, char** argv) {
  if (argc == 2) {
    struct rlimit limit = {kLimit, kLimit};
    setrlimit(strcmp(argv[1], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA, &limit);
    char* again[] = {argv[0], argv[1], "work", NULL};
    execv(argv[0], again);
  }
  if (argc != 3) die("usage: %s as|data", argv[0]);
  const size_t enough = (size_t)600 << 20;
  size_t first = fill_and_empty(enough);
  if (first < enough) die("only %zu MiB under a limit of 1 GiB", first >> 20);
  for (uintptr_t i = 0; i < 4; ++i) {
    pthread_t a = start(work, (void*)(i + 1)), b = start(work, (void*)(i + 9));
    pthread_join(a, NULL);
    pthread_join(b, NULL);
  }
  size_t most = fill_and_empty((size_t)2 << 30);
  if (most >= (size_t)1 << 30) die("the limit does not hold");
  size_t again = fill_and_empty((size_t)2 << 30);
  allocate_a_little();
  printf("%zu MiB of 1024, then %zu\n", most >> 20, again >> 20);
  return again * 10 > most * 9 ? 0 : 1;
}
