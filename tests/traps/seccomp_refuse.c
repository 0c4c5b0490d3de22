/* SPDX-License-Identifier: Apache-2.0 */
/* A filter that refuses one system call, from the start of the process.
     seccomp_refuse madvise|munmap|mincore|rseq|mremap|membarrier|getcpu|clone3|mprotect
   mprotect from main on, and without a second thread: the loader and pthread_create need it.
   Every allocation holds, and memory is used again: 20 rounds of 64 MiB need no 20 times as much.
 */
#include "seccomp.h"

static const struct {
  const char* name;
  unsigned number;
} calls[] = {{"madvise", SYS_madvise}, {"munmap", SYS_munmap},         {"mincore", SYS_mincore},
             {"rseq", SYS_rseq},       {"mremap", SYS_mremap},         {"getcpu", SYS_getcpu},
             {"clone3", SYS_clone3},   {"membarrier", SYS_membarrier}, {"mprotect", SYS_mprotect}};

static void refuse(unsigned number) {
  struct sock_filter code[] = {
      LOAD(nr),
      IS(number, 1),
      GIVE(SECCOMP_RET_ERRNO | EPERM),
      GIVE(SECCOMP_RET_ALLOW),
  };
  install_filter(code, COUNT_OF(code), 0);
}

static void* work(void* seed) {
  churn((uintptr_t)seed, 20000, NULL);
  return NULL;
}

static void one_round(size_t size) {
  size_t n = (64u << 20) / size;
  unsigned char** objects = malloc(n * sizeof(*objects));
  for (size_t i = 0; i < n; ++i) objects[i] = filled(size, (unsigned char)i);
  for (size_t i = 0; i < n; ++i) check_and_free(objects[i], size, (unsigned char)i);
  free(objects);
}

int main(int argc, char** argv) {
  if (argc < 2) die("usage: %s CALL", argv[0]);
  int late = strcmp(argv[1], "mprotect") == 0;
  for (size_t i = 0; argc == 2 && i < COUNT_OF(calls); ++i)
    if (strcmp(argv[1], calls[i].name) == 0) {
      refuse(calls[i].number);
      if (late) break;
      char* again[] = {argv[0], argv[1], "work", NULL};
      execv(argv[0], again);
    }
  if (argc != 3 && !late) die("cannot refuse %s", argv[1]);
  pthread_t thread = pthread_self();
  if (late)
    work((void*)9);
  else
    thread = start(work, (void*)9);
  static const size_t sizes[] = {64, 3000, 100000, 700000, 3000000};
  long first = 0;
  for (int i = 0; i < 20; ++i) {
    one_round(sizes[i % COUNT_OF(sizes)]);
    if (i == 4) first = rss_kib();
  }
  if (!late) pthread_join(thread, NULL);
  long grown = rss_kib() - first;
  printf("%ld KiB more after 15 rounds\n", grown);
  return grown < 140 * 1024 ? 0 : 1;
}
