// SPDX-License-Identifier: Apache-2.0
#include "heap/size_class.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace llamalloc {
namespace {

TEST(SizeClass, IsTheBucketOfEverySizeThatTheTableKnows) {
  for (size_t size = 0; size <= kTableMax; ++size) {
    size_t bytes = size_bucket(size);
    for (const size_t page : {4160, 4368})
      if (size > 4096 && size <= page) bytes = std::min(bytes, page);
    ASSERT_EQ(kSizeClassRows[size_class_of(size)].size, bytes) << size;
  }
}

TEST(SizeClass, IsTheSmallestThatHoldsTheSize) {
  for (size_t size = 1; size <= kSmallMax; ++size) {
    const int c = size_class_of(size);
    ASSERT_GE(kSizeClassRows[c].size, size);
    ASSERT_TRUE(c == 0 || kSizeClassRows[c - 1].size < size) << size;
  }
}

// The multiplication must equal division and remainder for every byte of a span.
TEST(SizeClass, MagicDividesEveryOffsetOfASpan) {
  for (const SizeClassRow& row : kSizeClassRows)
    for (uint64_t offset = 0; offset < row.blocks * kBlockSize; ++offset) {
      const auto product = static_cast<unsigned __int128>(offset) * row.magic;
      ASSERT_EQ(static_cast<uint64_t>(product >> 64), offset / row.size) << row.size;
      ASSERT_EQ(static_cast<uint64_t>(product) < row.magic, offset % row.size == 0) << row.size;
    }
}

TEST(SizeClass, SpansAreWellShaped) {
  for (const SizeClassRow& row : kSizeClassRows) {
    const size_t bytes = row.blocks * kBlockSize;
    EXPECT_LE(bytes - size_t{row.slots} * row.size, bytes / 32) << row.size;
    EXPECT_GE(row.slots, row.size <= kTableMax ? 4 : 1) << row.size;
    EXPECT_LE(row.slots, 1024) << row.size;
    EXPECT_LE(row.blocks, 32) << row.size;
    EXPECT_LE(size_t{row.blocks} * kBlockSize, kHugePageSize);
    EXPECT_EQ(row.size % 16, 0u);
  }
}

}  // namespace
}  // namespace llamalloc
