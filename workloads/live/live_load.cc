// SPDX-License-Identifier: Apache-2.0
// A heap to look at while it is used: lab.live measures what looking costs.
//
//   live_load BYTES          allocates so many bytes of objects from 32 B to 32 KiB, the same
//                            number of bytes of each size, and never touches them: the allocator
//                            has a large heap, the machine need not have the memory
//   time SECONDS    (stdin)  allocates and frees for so long; prints p50, p99.9 and the longest
//   call
//                            of malloc in ns
//   end
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <iterator>

namespace {

constexpr size_t kSizes[] = {32, 128, 512, 2048, 8192, 32768};
constexpr size_t kMostCalls = size_t{1} << 24;
constexpr size_t kLive = 4096;

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

__attribute__((noinline)) void fill(size_t bytes) {
  const size_t each = bytes / std::size(kSizes);
  for (const size_t size : kSizes)
    for (size_t done = 0; done < each; done += size)
      if (void* volatile p = malloc(size); p == nullptr) abort();
}

uint32_t* calls() {
  static void* const room = mmap(nullptr, kMostCalls * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) abort();
  return static_cast<uint32_t*>(room);
}

// Each call frees the object of kLive calls ago.
size_t measure(double seconds) {
  static char* live[kLive];
  uint64_t random = 88172645463325252u;
  size_t n = 0;
  for (const uint64_t end = now() + static_cast<uint64_t>(seconds * 1e9); n < kMostCalls; ++n) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const size_t size = kSizes[random % 4] + random / 4 % 64;
    free(live[n % kLive]);
    const uint64_t before = now();
    live[n % kLive] = static_cast<char*>(malloc(size));
    const uint64_t after = now();
    live[n % kLive][0] = 1;
    calls()[n] = static_cast<uint32_t>(std::min<uint64_t>(after - before, UINT32_MAX));
    if (after > end) break;
  }
  return n;
}

void report(size_t n) {
  uint32_t* const ns = calls();
  std::sort(ns, ns + n);
  printf("%u %u %u %zu\n", ns[n / 2], ns[n - 1 - n / 1000], ns[n - 1], n);
}

}  // namespace

int main(int argc, char** argv) {
  char line[100];
  double seconds;
  fill(argc > 1 ? strtoull(argv[1], nullptr, 10) : 0);
  memset(calls(), 1, kMostCalls * sizeof(uint32_t));
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != nullptr && sscanf(line, "time %lf", &seconds) == 1) {
    report(measure(seconds));
    fflush(stdout);
  }
  return 0;
}
