// SPDX-License-Identifier: Apache-2.0
// Which instructions a function may be compiled for, and whether this machine runs them.
//
// A caller chooses the variant itself: an ifunc resolver would run inside the dynamic loader,
// before the process is ready for it.
//
// The processor is asked here: __builtin_cpu_supports brings 5 KB that tell all processors apart.
#pragma once

#include <cstdint>

namespace llamalloc {

#if defined(__x86_64__)
#define LLAMALLOC_TARGET_AVX2 __attribute__((target("avx2,fma")))

struct CpuidLeaf {
  uint32_t eax, ebx, ecx, edx;
};

inline CpuidLeaf cpuid(uint32_t leaf) {
  CpuidLeaf r;
  __asm__("cpuid" : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx) : "a"(leaf), "c"(0));
  return r;
}

// The system must keep the whole registers, too: XCR0 has the bits of SSE and AVX.
inline bool cpu_runs_avx2() {
  constexpr uint32_t kFma = 1u << 12, kXgetbv = 1u << 27, kAvx = 1u << 28, kAvx2 = 1u << 5;
  constexpr uint32_t kNeeded = kFma | kXgetbv | kAvx;
  if (cpuid(0).eax < 7 || (cpuid(1).ecx & kNeeded) != kNeeded) return false;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6 && (cpuid(7).ebx & kAvx2) != 0;
}
#else
#define LLAMALLOC_TARGET_AVX2
inline bool cpu_runs_avx2() {
  return false;
}
#endif

}  // namespace llamalloc
