// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder share: options, random numbers, pacing, and the line of results.
//
//   program --seed N --scale X [--seconds S]     -> program ops=N check=HEX
//
// Programs do the same operations for the same seed, at fixed times: each tick begins when it is
// due, however long the one before it took. So two allocators serve the same load at the same time,
// and the line tells whether both computed the same. Then the program stays quiet for three
// seconds, with all that stays alive, and ends. Values are checked while they are used; a wrong one
// ends the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

struct Rng {
  uint64_t s;
  explicit Rng(uint64_t seed) : s(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}
  uint64_t next() {
    uint64_t z = (s += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t n) { return n ? uint32_t((next() >> 32) * n >> 32) : 0; }
  uint32_t range(uint32_t a, uint32_t b) { return a + below(b - a + 1); }
  double unit() { return double(next() >> 11) * 0x1p-53; }
  bool chance(double p) { return unit() < p; }
};

inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}
inline uint64_t mix_bytes(uint64_t h, const char* p, size_t n) {
  if (n >= 64) {  // four lanes
    uint64_t lane[4] = {h, 1, 2, 3}, v[4];
    for (; n >= 32; p += 32, n -= 32) {
      memcpy(v, p, 32);
      for (int i = 0; i < 4; ++i) lane[i] = mix(lane[i], v[i]);
    }
    h = mix(mix(lane[0], lane[1]), mix(lane[2], lane[3]));
  }
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    h = mix(h, v);
  }
  for (; n; ++p, --n) h = mix(h, uint8_t(*p));
  return h;
}
inline uint64_t mix(uint64_t h, const std::string& s) {
  return mix_bytes(mix(h, s.size()), s.data(), s.size());
}

[[noreturn]] inline void corrupt(const char* what) {
  printf("CORRUPT %s\n", what);
  fflush(stdout);
  _Exit(3);
}

struct Args {
  uint64_t seed = 1;
  double scale = 1, seconds = 40;
  Args(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      if (!strcmp(argv[i], "--seed"))
        seed = strtoull(argv[i + 1], nullptr, 10);
      else if (!strcmp(argv[i], "--scale"))
        scale = atof(argv[i + 1]);
      else if (!strcmp(argv[i], "--seconds"))
        seconds = atof(argv[i + 1]);
      else {
        fprintf(stderr, "unknown option %s\n", argv[i]);
        exit(2);
      }
    }
  }
  uint32_t count(double at_scale_1) const {
    double n = at_scale_1 * scale;
    return n < 1 ? 1 : uint32_t(n);
  }
  // How high a wave is: one of four heights from `low` to `low + more`, in turn, as the seed says.
  double wave_size(uint64_t wave, double low, double more, uint64_t step = 3) const {
    return low + more * double((wave * step + seed) % 4) / 3;
  }
};

// Work begins at fixed times. How late it began at worst goes to stderr: more than a tick means
// overload.
struct Pace {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double worst = 0;
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void at(double t) {
    double late = now() - t;
    if (late > worst) worst = late;
    if (late < 0)
      std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                std::chrono::duration<double>(t)));
  }
};

// The result line, then three quiet seconds while the caller's data stays alive.
inline void finish(const char* name, uint64_t ops, uint64_t check, const Pace& pace) {
  printf("%s ops=%llu check=%016llx\n", name, (unsigned long long)ops, (unsigned long long)check);
  fflush(stdout);
  fprintf(stderr, "late %.3f\n", pace.worst);
  std::this_thread::sleep_for(std::chrono::seconds(3));
}
