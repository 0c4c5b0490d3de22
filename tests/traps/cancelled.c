/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that are cancelled while they print malloc's statistics, which is no place to end at:
   each goes on to the next one that is, and no lock stays behind. */
#include <malloc.h>

#include "trap.h"

enum { kThreads = 50 };
static int passed;

static void* print(void* gate) {
  pthread_barrier_wait(gate);
  malloc_stats();
  allocate_a_little();
  __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
  pthread_testcancel();
  return NULL;
}

int main(void) {
  if (freopen("/dev/null", "w", stderr) == NULL) die("freopen: %s", strerror(errno));
  for (int i = 0; i < kThreads; ++i) {
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_t thread = start(print, &gate);
    pthread_cancel(thread);
    pthread_barrier_wait(&gate);
    void* result;
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) die("a thread was not cancelled");
    allocate_a_little();
  }
  printf("%d of %d passed malloc_stats\n", passed, kThreads);
  return passed == kThreads ? 0 : 1;
}
