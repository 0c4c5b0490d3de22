// SPDX-License-Identifier: Apache-2.0
#include "os/cpu.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

#if defined(__x86_64__)
TEST(Cpu, AgreesWithTheCompiler) {
  __builtin_cpu_init();
  EXPECT_EQ(cpu_runs_avx2(), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}
#endif

}  // namespace
}  // namespace llamalloc
