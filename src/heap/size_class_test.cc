// SPDX-License-Identifier: Apache-2.0
#include "heap/size_class.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

TEST(SizeClass, IsTheBucketOfEverySmallSize) {
  for (size_t size = 0; size <= kSmallMax; ++size)
    ASSERT_EQ(kSizeClassRows[size_class_of(size)].size, size_bucket(size)) << size;
}

// The multiplication must equal the division for every byte of a span.
TEST(SizeClass, MagicDividesEveryOffsetOfASpan) {
  for (const SizeClassRow& row : kSizeClassRows)
    for (size_t offset = 0; offset < row.blocks * kBlockSize; ++offset)
      ASSERT_EQ(offset * row.magic >> kMagicShift, offset / row.size) << row.size;
}

TEST(SizeClass, SpansAreWellShaped) {
  for (const SizeClassRow& row : kSizeClassRows) {
    const size_t bytes = row.blocks * kBlockSize;
    EXPECT_LE(bytes - size_t{row.slots} * row.size, bytes / 32) << row.size;
    EXPECT_GE(row.slots, 4) << row.size;
    EXPECT_LE(row.slots, 1024) << row.size;
    EXPECT_LE(row.blocks, 32) << row.size;
    EXPECT_EQ(row.size % 16, 0u);
    EXPECT_GE(row.claim, 1);
    EXPECT_LE(row.claim, 64);
  }
}

}  // namespace
}  // namespace llamalloc
