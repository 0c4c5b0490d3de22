// SPDX-License-Identifier: Apache-2.0
// How rows of malloc_bench are measured: time, memory, random sizes.
#pragma once

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

double budget = 0.3;  // seconds a row measures, after a tenth of it to warm up

// Keeps the compiler from reasoning about p: it may be read and written here.
inline void escape(void* p) {
  asm volatile("" : : "g"(p) : "memory");
}

inline void* allocate(size_t size) {
  auto* p = static_cast<char*>(malloc(size));
  escape(p);
  *p = 1;
  return p;
}

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// --- Memory of this process ---

size_t status_bytes(const char* name) {
  static char text[8192];
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  text[n < 0 ? 0 : n] = 0;
  const char* line = strstr(text, name);
  return line == nullptr ? 0 : strtoul(line + strlen(name), nullptr, 10) << 10;
}

size_t rss() {
  return status_bytes("VmRSS:");
}

// What the kernel charges to the control group of this process, page cache left out; 0 where
// MEMORY_GROUP does not name its folder. Versions 1 and 2 of control groups.
size_t number_in(const char* folder, const char* file, const char* row) {
  static char path[512], text[16384];
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, text + 1, sizeof(text) - 2);
  if (fd >= 0) close(fd);
  text[0] = '\n';
  text[n < 0 ? 1 : n + 1] = 0;
  const char* line = strstr(text, row);
  return line == nullptr ? 0 : strtoul(line + strlen(row), nullptr, 10);
}

size_t charge() {
  const char* folder = getenv("MEMORY_GROUP");
  if (folder == nullptr) return 0;
  size_t usage = number_in(folder, "memory.usage_in_bytes", "\n");
  size_t cache = number_in(folder, "memory.stat", "\ntotal_cache ");
  if (usage == 0) {
    usage = number_in(folder, "memory.current", "\n");
    cache = number_in(folder, "memory.stat", "\nfile ");
  }
  return usage > cache ? usage - cache : 0;
}

double difference(size_t later, size_t earlier) {
  return static_cast<double>(later) - static_cast<double>(earlier);
}

// --- Measuring ---

struct Result {
  double ns = 0, mean_ns = 0, cpu_ns = 0;
  uint64_t operations = 0;
  char extra[256] = "";
};

constexpr int kChunks = 512;

int by_value(const void* a, const void* b) {
  const double x = *static_cast<const double*>(a), y = *static_cast<const double*>(b);
  return (x > y) - (x < y);
}

double median(double* value, int count) {
  qsort(value, count, sizeof(double), by_value);
  return value[count / 2];
}

// Calls body(n), which performs n operations, until the budget is spent.
template <typename Body>
Result measure(Body&& body, uint64_t n = 1) {
  static double wall_chunk[kChunks], cpu_chunk[kChunks];
  const double begun = seconds(CLOCK_MONOTONIC);
  for (;; n *= 2) {  // warm up, and find how many operations take some 10 ms
    const double start = seconds(CLOCK_MONOTONIC);
    body(n);
    const double now = seconds(CLOCK_MONOTONIC);
    if (now - start > 0.01 || now - begun > budget) break;
  }
  Result result;
  int chunks = 0;
  double last_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), last = seconds(CLOCK_MONOTONIC);
  const double start = last;
  do {
    body(n);
    const double now = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    wall_chunk[chunks] = (now - last) * 1e9 / static_cast<double>(n);
    cpu_chunk[chunks++] = (cpu - last_cpu) * 1e9 / static_cast<double>(n);
    last = now, last_cpu = cpu;
  } while (chunks < kChunks && (last - start < budget || chunks < 3));
  result.operations = n * chunks;
  result.mean_ns = (last - start) * 1e9 / static_cast<double>(result.operations);
  result.ns = median(wall_chunk, chunks);
  result.cpu_ns = median(cpu_chunk, chunks);
  return result;
}

// --- Random numbers and sizes ---

struct Random {
  uint64_t state = 0x9e3779b97f4a7c15;
  uint32_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<uint32_t>(state >> 20);
  }
  // Uniform below n.
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{next()} * n) >> 32); }
};

// 4,096 sizes, log-uniform in 16..1024.
struct Sizes {
  uint16_t at[4096];
  Sizes() {
    Random random;
    for (uint16_t& size : at) {
      const uint32_t power = random.below(6);  // 16..31, ..., 512..1023
      size = static_cast<uint16_t>((16u << power) + random.below(16u << power));
    }
  }
  uint16_t pick(Random& random) const { return at[random.next() & 4095]; }
};

}  // namespace
