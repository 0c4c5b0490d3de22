// SPDX-License-Identifier: Apache-2.0
#include "os/static_tls.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

thread_local volatile char large[100 << 10];

TEST(StaticTls, CountsTheVariablesOfThisProgram) {
  large[0] = 1;
  EXPECT_GE(thread_local_bytes(), sizeof(large));
  EXPECT_LT(thread_local_bytes(), sizeof(large) + (64 << 10));
}

}  // namespace
}  // namespace llamalloc
