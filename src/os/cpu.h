// SPDX-License-Identifier: Apache-2.0
// Which instructions a function may be compiled for, and whether this machine runs them.
//
// A caller chooses the variant itself: an ifunc resolver would run inside the dynamic loader,
// before the process is ready for it.
#pragma once

namespace llamalloc {

#if defined(__x86_64__)
#define LLAMALLOC_TARGET_AVX2 __attribute__((target("avx2,fma")))
inline bool cpu_runs_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define LLAMALLOC_TARGET_AVX2
inline bool cpu_runs_avx2() {
  return false;
}
#endif

}  // namespace llamalloc
