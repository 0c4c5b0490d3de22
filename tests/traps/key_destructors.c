/* SPDX-License-Identifier: Apache-2.0 */
/* 3,000 threads that allocate while they end, in destructors of keys that set themselves again up
   to the system's limit of rounds, half of them made before the allocator's own key; and as many
   that allocate for the first time in the second round. RSS stays flat. */
#include <limits.h>

#include "trap.h"

enum { kThreads = 3000, kWarm = 500, kKeys = 8, kKeep = 16 };
static pthread_key_t keys[kKeys];
static __thread int rounds[kKeys];
static __thread int first_round = 1; /* in which it allocates */
static unsigned char* left[kKeys];   /* by the last destructors, for others to free */

static void end(void* value) {
  uintptr_t key = (uintptr_t)value - 1;
  if (++rounds[key] < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(keys[key], value);
  if (rounds[key] < first_round) return;
  free(filled(20000, 1));
  for (int i = 0; i < kKeep; ++i) free(filled(100 + 16 * i, 2));
  if (rounds[key] < PTHREAD_DESTRUCTOR_ITERATIONS) return;
  left[key] = filled(3000, 4);
}

/* Their destructors run before the allocator's in each round; those of the second half after. */
static void make_first_half(void) {
  for (int i = 0; i < kKeys / 2; ++i) pthread_key_create(&keys[i], end);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = make_first_half;

static void* work(void* ignored) {
  for (uintptr_t i = 0; i < kKeys; ++i) pthread_setspecific(keys[i], (void*)(i + 1));
  free(filled(64, 1));
  return ignored;
}

/* Only the last key is set: its destructor runs after the allocator's. */
static void* work_late(void* ignored) {
  first_round = 2;
  pthread_setspecific(keys[kKeys - 1], (void*)(uintptr_t)kKeys);
  return ignored;
}

int main(void) {
  long warm = 0;
  for (int i = kKeys / 2; i < kKeys; ++i) pthread_key_create(&keys[i], end);
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(start(work, NULL), NULL);
    for (int k = 0; k < kKeys; ++k) check_and_free(left[k], 3000, 4);
    pthread_join(start(work_late, NULL), NULL);
    check_and_free(left[kKeys - 1], 3000, 4);
    if (i == kWarm) warm = rss_kib();
  }
  long grown = rss_kib() - warm;
  printf("%ld KiB more after %d threads\n", grown, kThreads - kWarm);
  return grown < 4096 ? 0 : 1;
}
