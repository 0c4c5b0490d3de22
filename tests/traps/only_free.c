/* SPDX-License-Identifier: Apache-2.0 */
/* One thread allocates 2 GiB in all, three threads only ever free. Nothing piles up with them. */
#include <stdatomic.h>

#include "trap.h"

enum { kQueue = 1024, kObjects = 2000000, kConsumers = 3 };
static _Atomic(unsigned char*) queue[kConsumers][kQueue];
static const size_t kSize = 1000;

static void* consume(void* argument) {
  _Atomic(unsigned char*)* slots = argument;
  for (size_t at = 0;; at = (at + 1) % kQueue) {
    unsigned char* p;
    while ((p = atomic_exchange(&slots[at], NULL)) == NULL) sched_yield();
    if (p == (unsigned char*)slots) return NULL;
    check_and_free(p, kSize, 8);
  }
}

int main(void) {
  pthread_t threads[kConsumers];
  for (int i = 0; i < kConsumers; ++i) threads[i] = start(consume, queue[i]);
  long most = 0;
  for (size_t i = 0; i <= kObjects; ++i) {
    for (size_t c = 0; c < kConsumers; ++c) {
      if (i != kObjects && i % kConsumers != c) continue;
      _Atomic(unsigned char*)* slot = &queue[c][i / kConsumers % kQueue];
      if (i == kObjects) {
        for (size_t s = 0; s < kQueue; ++s)
          while (atomic_load(&queue[c][s]) != NULL) sched_yield();
        for (size_t s = 0; s < kQueue; ++s) queue[c][s] = (unsigned char*)queue[c];
        continue;
      }
      while (atomic_load(slot) != NULL) sched_yield();
      atomic_store(slot, filled(kSize, 8));
    }
    if (i % 100000 == 0 && rss_kib() > most) most = rss_kib();
  }
  for (int i = 0; i < kConsumers; ++i) pthread_join(threads[i], NULL);
  printf("at most %ld KiB resident\n", most);
  return most < 60 * 1024 ? 0 : 1;
}
