/* SPDX-License-Identifier: Apache-2.0 */
/* A burst by four threads is freed and the process sleeps, without another call: after SECONDS its
   control group is charged for at most 3 MiB more than before the first call, and two threads with
   their thread-local storage. Without a group of its own (charge.h) its RSS is within 10 MiB.
     idle_release small|mixed|large in_order|shuffled end|sleep|spin|main SECONDS [MIB [TABLES]]
   end: the threads end after the burst; sleep: they block; spin: they run on and call nothing;
   main: the main thread did it all. MIB: of the burst, 160. TABLES: MiB that tables of what was
   asked for may take besides, 0. TLS_KIB: so much static thread-local storage. */
#include "charge.h"

enum { kThreads = 4 };
enum { kMostCharge = 3 * 1024, kMostRss = 10 * 1024 }; /* KiB */
static size_t burst_bytes = (size_t)160 << 20;
static const char* sizes;
static int shuffled, main_alone;
static pthread_barrier_t begun, full, freed;
#ifdef TLS_KIB
static __thread char block[TLS_KIB << 10];
#endif

/* Both ends and the middle, so that it is there. */
static void touch_tls(void) {
#ifdef TLS_KIB
  for (size_t i = 0; i < sizeof(block); i += sizeof(block) / 2 - 1) ++*(volatile char*)&block[i];
#endif
}

static int has_group(void) {
  return charge_kib() >= 0;
}

static long used_kib(void) {
  return has_group() ? charge_kib() : rss_kib();
}

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
  touch_tls();
  pthread_barrier_wait(&begun);
  pthread_barrier_wait(&begun);
  burst((uintptr_t)seed, burst_bytes / kThreads);
  pthread_barrier_wait(&freed);
  return NULL;
}

static void* work_and_sleep(void* seed) {
  work(seed);
  while (1) pause();
  return NULL;
}

static void* work_and_spin(void* seed) {
  static volatile long spins;
  work(seed);
  while (1) ++spins;
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 5 || argc > 7)
    die("usage: %s small|mixed|large in_order|shuffled end|sleep|spin|main SECONDS [MIB [TABLES]]",
        *argv);
  if (argc > 5) burst_bytes = strtoul(argv[5], NULL, 10) << 20;
  const long tables = argc > 6 ? atol(argv[6]) * 1024 : 0;
  sizes = argv[1];
  shuffled = strcmp(argv[2], "shuffled") == 0;
  main_alone = strcmp(argv[3], "main") == 0;
  const int end = strcmp(argv[3], "end") == 0;
  const int spin = strcmp(argv[3], "spin") == 0;
  touch_tls();
  long before = used_kib();
  allocate_a_little();
  pthread_barrier_init(&begun, NULL, kThreads + 1);
  pthread_barrier_init(&full, NULL, kThreads);
  pthread_barrier_init(&freed, NULL, kThreads + 1);
  const long ready = used_kib();
  long one_thread = 0;
  if (main_alone) {
    burst(1, burst_bytes);
  } else {
    pthread_t threads[kThreads];
    for (uintptr_t i = 0; i < kThreads; ++i)
      threads[i] = start(end ? work : spin ? work_and_spin : work_and_sleep, (void*)(i + 1));
    pthread_barrier_wait(&begun);
    one_thread = (used_kib() - ready) / kThreads;
    before += kThreads * one_thread;
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&freed);
    for (int i = 0; end && i < kThreads; ++i) pthread_join(threads[i], NULL);
  }
  long freed_kib = used_kib();
  sleep((unsigned)atoi(argv[4]));
  long after = used_kib();
  const char* what = has_group() ? "charged" : "resident";
  printf("%ld MiB %s at the end of the burst, %.1f MiB more than before after %s s\n",
         freed_kib / 1024, what, (double)(after - before) / 1024, argv[4]);
  const long most = has_group() ? kMostCharge + tables : kMostRss;
  return after - before <= most + 2 * one_thread ? 0 : 1;
}
