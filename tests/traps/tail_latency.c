/* SPDX-License-Identifier: Apache-2.0 */
/* How long single calls take while memory is being given back: a thread measures malloc and free of
   mixed sizes for SECONDS, beside a thread that frees 64 MiB in each second, so that there always
   is something to give back. What the machine does to any thread is measured in the same way, by
   reads of the clock that no allocator takes part in.

     tail_latency SECONDS wall|cpu

   cpu: by the thread's own time, faults and system calls included; that leaves out what other
   programs take, and waiting, which is counted instead: how often the thread blocked. */
#include <sys/resource.h>
#include <time.h>

#include "trap.h"

enum { kBuckets = 64 * 16, kObjects = 4000, kBurst = 64 << 10 };
static volatile int stop;
static clockid_t watch;

static uint64_t read_clock(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) {
  return read_clock(watch);
}

/* Sixteen buckets to a power of two. */
struct times {
  uint64_t count[kBuckets];
  uint64_t n, longest, above_1ms;
};
static struct times of_malloc, of_free, of_nothing;

static void add(struct times* times, uint64_t ns) {
  int log2 = ns < 16 ? 4 : 63 - __builtin_clzll(ns);
  ++times->count[ns < 16 ? ns : (uint64_t)(log2 - 3) * 16 + (ns >> (log2 - 4)) % 16];
  ++times->n;
  times->above_1ms += ns > 1000000;
  if (ns > times->longest) times->longest = ns;
}

static uint64_t quantile(const struct times* times, double q) {
  uint64_t seen = 0;
  for (uint64_t b = 0; b < kBuckets; ++b)
    if ((double)(seen += times->count[b]) >= q * (double)times->n)
      return b < 16 ? b : (16 + b % 16) << (b / 16 - 1);
  return times->longest;
}

static void* burst(void* ignored) {
  static unsigned char* objects[kBurst];
  while (!stop) {
    for (int i = 0; i < kBurst; ++i) objects[i] = filled(1000, 1);
    for (int i = 0; i < kBurst; ++i) free(objects[i]);
    usleep(1000000);
  }
  return ignored;
}

static void print(const char* name, const struct times* times) {
  printf("%s: p99 %.1f us, p99.99 %.1f us, max %.1f us, %lu of %.1f M above 1 ms; ", name,
         (double)quantile(times, 0.99) / 1000, (double)quantile(times, 0.9999) / 1000,
         (double)times->longest / 1000, (unsigned long)times->above_1ms, (double)times->n / 1e6);
}

int main(int argc, char** argv) {
  if (argc != 3) die("usage: %s SECONDS wall|cpu", argv[0]);
  watch = strcmp(argv[2], "cpu") == 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  pthread_t thread = start(burst, NULL);
  static unsigned char* objects[kObjects];
  uint64_t state = 77;
  uint64_t end = read_clock(CLOCK_MONOTONIC) + (uint64_t)atoi(argv[1]) * 1000000000u;
  while (read_clock(CLOCK_MONOTONIC) < end) {
    uint64_t r = next_random(&state);
    unsigned char** object = &objects[(r >> 8) % kObjects];
    size_t size = 16 + (r >> 20) % (r % 1000 == 0 ? 3000000 : r % 50 == 0 ? 60000 : 1000);
    uint64_t t0 = now();
    free(*object);
    uint64_t t1 = now();
    *object = malloc(size);
    uint64_t t2 = now();
    uint64_t t3 = now();
    if (*object == NULL) die("malloc(%zu)", size);
    **object = 1;
    add(&of_free, t1 - t0);
    add(&of_malloc, t2 - t1);
    add(&of_nothing, t3 - t2);
  }
  stop = 1;
  pthread_join(thread, NULL);
  print("malloc", &of_malloc);
  print("free", &of_free);
  print("clock", &of_nothing);
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  printf("blocked %ld times\n", usage.ru_nvcsw);
  return 0;
}
