/* SPDX-License-Identifier: Apache-2.0 */
/* malloc_trim(0) on a heap with holes, where sparse pages are looked for. stack: in a thread with
   the smallest stack. cancelled: in one that is cancelled, which may happen in no call of malloc's;
   a fork afterwards waits for no lock. */
#include <limits.h>
#include <malloc.h>

#include "trap.h"

enum { kObjects = 40000, kSize = 2000, kKept = 400 };
static int trimmed;

static void* trim(void* cancelled) {
  if (cancelled != NULL) pthread_cancel(pthread_self());
  malloc_trim(0);
  trimmed = 1;
  return NULL;
}

static void check_fork(void) {
  alarm(10);
  pid_t child = fork();
  if (child == 0) {
    allocate_a_little();
    _exit(0);
  }
  expect_good_end(child);
}

int main(int argc, char** argv) {
  static unsigned char* objects[kObjects];
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(kSize, 1);
  for (int i = 0; i < kObjects; ++i)
    if (i % kKept != 0) free(objects[i]);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  const int cancelled = argc > 1 && strcmp(argv[1], "cancelled") == 0;
  if (!cancelled) pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, trim, cancelled ? argv[1] : NULL) != 0) die("no thread");
  pthread_join(thread, NULL);
  check_fork();
  printf("%s\n", trimmed ? "trimmed" : "ended in malloc_trim");
  return trimmed ? 0 : 1;
}
