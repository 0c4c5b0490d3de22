// SPDX-License-Identifier: Apache-2.0
// Calls the allocator through four functions that callgrind can tell apart: count_calls PATTERN N.
// What a call costs is what callgrind sums below them; their own instructions are not part of it.
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

namespace {

void pairs(long n) {
  for (long i = 0; i < n; ++i) {
    bench_free(bench_malloc(64));
    bench_delete(bench_new(64), 64);
  }
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

}  // namespace

int main(int argc, char** argv) {
  const long n = argc == 3 ? atol(argv[2]) : 0;
  if (n <= 0) return fprintf(stderr, "usage: count_calls pair|churn N\n"), 2;
  if (strcmp(argv[1], "pair") == 0) return pairs(n), 0;
  if (strcmp(argv[1], "churn") == 0) return churn(n), 0;
  fprintf(stderr, "count_calls: no pattern %s; there are pair and churn\n", argv[1]);
  return 2;
}
