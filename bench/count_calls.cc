// SPDX-License-Identifier: Apache-2.0
// Calls the allocator through functions that callgrind can tell apart: count_calls PATTERN N. With
// SECONDS it waits so long first, with MIB it holds so much from before that on.
// What a call costs is what callgrind sums below them; their own instructions are not part of it.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#define CALLS extern "C" [[gnu::noinline, gnu::noclone]]

CALLS void* bench_malloc(size_t size) {
  void* p = malloc(size);
  asm volatile("" : "+r"(p) : : "memory");  // no tail call: the callee must return here
  return p;
}

CALLS void bench_free(void* p) {
  free(p);
  asm volatile("" : : : "memory");
}

CALLS void* bench_new(size_t size) {
  void* p = ::operator new(size);
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

CALLS void bench_delete(void* p, size_t size) {
  ::operator delete(p, size);
  asm volatile("" : : : "memory");
}

CALLS void* bench_calloc(size_t count, size_t size) {
  void* p = calloc(count, size);
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

CALLS void* bench_realloc(void* old, size_t size) {
  void* p = realloc(old, size);
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

namespace {

template <size_t size>
void pairs(long n) {
  for (long i = 0; i < n; ++i) {
    bench_free(bench_malloc(size));
    bench_delete(bench_new(size), size);
  }
}

void zeroed(long n) {
  for (long i = 0; i < n; ++i) bench_free(bench_calloc(1, 64));
}

// A buffer grows from 16 bytes to 1 MiB by 1.3 at a time, again and again.
void growth(long n) {
  void* p = nullptr;
  size_t size = 16;
  for (long i = 0; i < n; ++i) {
    p = bench_realloc(p, size);
    size += size * 3 / 10;
    if (size <= 1 << 20) continue;
    bench_free(p);
    p = nullptr;
    size = 16;
  }
  bench_free(p);
}

// 128 objects of 64 bytes, allocated here and freed by another thread: all that both of them do,
// turn by turn.
struct Handover {
  static constexpr int kObjects = 128;
  void* objects[kObjects];
  std::atomic<bool> full{false}, ended{false};
};
Handover handover;

void* take_over(void*) {
  while (true) {
    while (!handover.full.load(std::memory_order_acquire)) {
      if (handover.ended.load(std::memory_order_acquire)) return nullptr;
      sched_yield();
    }
    for (void* p : handover.objects) bench_free(p);
    handover.full.store(false, std::memory_order_release);
  }
}

void remote(long n) {
  pthread_t other;
  if (pthread_create(&other, nullptr, take_over, nullptr) != 0) abort();
  for (long i = 0; i < n; i += Handover::kObjects) {
    while (handover.full.load(std::memory_order_acquire)) sched_yield();
    for (void*& p : handover.objects) p = bench_malloc(64);
    handover.full.store(true, std::memory_order_release);
  }
  while (handover.full.load(std::memory_order_acquire)) sched_yield();
  handover.ended.store(true, std::memory_order_release);
  pthread_join(other, nullptr);
}

constexpr uint32_t kObjects = 2000;
constexpr size_t kSizes[] = {16, 24, 32, 48, 64, 100, 128, 200, 256, 400, 512, 1000};

// Replaces random objects of mixed sizes; odd slots hold what new gave.
void churn(long n) {
  static void* held[kObjects];
  static size_t size[kObjects];
  uint64_t state = 88172645463325252;
  for (long i = 0; i < n * 2; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const auto at = static_cast<uint32_t>((state >> 32) % kObjects);
    const size_t next = kSizes[(state >> 8) % 12];
    if (at % 2 == 0) {
      if (held[at] != nullptr) bench_free(held[at]);
      held[at] = bench_malloc(next);
    } else {
      if (held[at] != nullptr) bench_delete(held[at], size[at]);
      held[at] = bench_new(next);
    }
    size[at] = next;
  }
}

// What one caller of bench_malloc frees at once, another keeps: from such a run it is learned that
// callers decide. That takes 400 turns, 20 s.
[[gnu::noinline, gnu::noclone]] void brief() {
  void* p = bench_malloc(64);
  bench_free(p);
}
[[gnu::noinline, gnu::noclone]] void lasting() {
  void* p = bench_malloc(64);
  asm volatile("" : : "r"(p) : "memory");
}
void callers(long n) {
  for (long i = 0; i < n; ++i) {
    brief();
    if (i % 1000 != 0) continue;
    lasting();
    usleep(50'000);
  }
}

// For good, by calls that are not counted.
void hold(long mib) {
  for (long i = 0; i < mib * 16; ++i) {
    void* p = malloc(size_t{64} << 10);
    if (p == nullptr) abort();
    asm volatile("" : : "r"(p) : "memory");
  }
}

struct Pattern {
  const char* name;
  void (*run)(long);
};
const Pattern patterns[] = {
    {"pair", pairs<64>},       {"churn", churn},     {"medium", pairs<size_t{64} << 10>},
    {"large", pairs<1 << 20>}, {"calloc", zeroed},   {"growth", growth},
    {"remote", remote},        {"callers", callers},
};

}  // namespace

int main(int argc, char** argv) {
  const long n = argc >= 3 && argc <= 5 ? atol(argv[2]) : 0;
  for (const Pattern& pattern : patterns) {
    if (n <= 0 || strcmp(argv[1], pattern.name) != 0) continue;
    if (argc == 5) hold(atol(argv[4]));
    if (argc >= 4) sleep(static_cast<unsigned>(atoi(argv[3])));
    return pattern.run(n), 0;
  }
  fprintf(stderr, "usage: count_calls PATTERN N [SECONDS [MIB]], with N > 0 and a PATTERN of");
  for (const Pattern& pattern : patterns) fprintf(stderr, " %s", pattern.name);
  fputc('\n', stderr);
  return 2;
}
