/* SPDX-License-Identifier: Apache-2.0 */
/* A burst of 160 MiB by four threads is freed and the process sleeps, without another call: after
   SECONDS its RSS is within 10 MiB of before.
     idle_release small|mixed|large in_order|shuffled end|sleep|main SECONDS
   end: the threads end after the burst; sleep: they block; main: the main thread did it all. */
#include "trap.h"

enum { kThreads = 4 };
static const size_t kBurst = (size_t)160 << 20;
static const char* sizes;
static int shuffled, main_alone;
static pthread_barrier_t full, freed;

static size_t pick(uint64_t* state) {
  uint64_t r = next_random(state);
  if (strcmp(sizes, "small") == 0) return 16 + (r >> 20) % 240;
  if (strcmp(sizes, "large") == 0) return (400 << 10) + (r >> 20) % (4 << 20);
  return r % 500 == 0 ? (200 << 10) + (r >> 20) % (2 << 20) : 16 + (r >> 20) % 4000;
}

static void burst(uint64_t seed, size_t bytes) {
  const size_t most = bytes / 16;
  unsigned char** objects = malloc(most / 8 * sizeof(*objects));
  uint64_t state = seed * 2654435761u + 1;
  size_t n = 0;
  for (size_t used = 0; used < bytes && n < most / 8; ++n) {
    size_t size = pick(&state);
    objects[n] = filled(size, 1);
    used += size;
  }
  if (!main_alone) pthread_barrier_wait(&full);
  for (size_t i = n; shuffled && i > 1; --i) {
    size_t j = next_random(&state) % i;
    unsigned char* swapped = objects[i - 1];
    objects[i - 1] = objects[j];
    objects[j] = swapped;
  }
  for (size_t i = 0; i < n; ++i) free(objects[i]);
  free(objects);
}

static void* work(void* seed) {
  burst((uintptr_t)seed, kBurst / kThreads);
  pthread_barrier_wait(&freed);
  return NULL;
}

static void* work_and_sleep(void* seed) {
  work(seed);
  pause();
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 5) die("usage: %s small|mixed|large in_order|shuffled end|sleep|main SECONDS", *argv);
  sizes = argv[1];
  shuffled = strcmp(argv[2], "shuffled") == 0;
  main_alone = strcmp(argv[3], "main") == 0;
  const int end = strcmp(argv[3], "end") == 0;
  allocate_a_little();
  long before = rss_kib();
  pthread_barrier_init(&full, NULL, kThreads);
  pthread_barrier_init(&freed, NULL, kThreads + 1);
  if (main_alone) {
    burst(1, kBurst);
  } else {
    pthread_t threads[kThreads];
    for (uintptr_t i = 0; i < kThreads; ++i)
      threads[i] = start(end ? work : work_and_sleep, (void*)(i + 1));
    pthread_barrier_wait(&freed);
    for (int i = 0; end && i < kThreads; ++i) pthread_join(threads[i], NULL);
  }
  long freed_kib = rss_kib();
  sleep((unsigned)atoi(argv[4]));
  long after = rss_kib();
  printf("%ld MiB at the end of the burst, %.1f MiB more than before after %s s\n",
         freed_kib / 1024, (double)(after - before) / 1024, argv[4]);
  return after - before <= 10 * 1024 ? 0 : 1;
}
