// SPDX-License-Identifier: Apache-2.0
#include "base/code_key.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

// The figures of contracts/learned_state.md, Example.
TEST(CodeKey, HasTheFiguresOfTheContract) {
  uint8_t id[20];
  for (uint8_t i = 0; i < sizeof(id); ++i) id[i] = i;
  const uint64_t build = hash_build_id(id, sizeof(id));
  EXPECT_EQ(build, 0xCC927F6EE23A0F61u);
  EXPECT_EQ(code_key(build, 0x1A2B3), 0xDFA6969D32359FB7u);
  EXPECT_EQ(code_key(build, 0x4C5D6), 0x427C48BB7E9B2031u);
}

TEST(CodeKey, IsNeverZeroAndTellsBuildsAndOffsetsApart) {
  const uint8_t id[] = {1, 2, 3};
  const uint64_t build = hash_build_id(id, sizeof(id));
  for (uint8_t i = 0; i < 16; ++i) EXPECT_EQ(hash_build_id(&i, 1) & 1, 1u);
  EXPECT_EQ(hash_build_id(id, 0), 0u);
  EXPECT_NE(hash_build_id(id, 2), build);
  EXPECT_NE(code_key(build, build), 0u);
  EXPECT_NE(code_key(build, 1), code_key(build, 2));
  EXPECT_NE(code_key(build, 1), code_key(build + 2, 1));
}

}  // namespace
}  // namespace llamalloc
