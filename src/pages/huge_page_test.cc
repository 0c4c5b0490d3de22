// SPDX-License-Identifier: Apache-2.0
#include "pages/huge_page.h"

#include <gtest/gtest.h>

#include <random>

namespace llamalloc {
namespace {

uint32_t naive_find(const bool* used, uint32_t n, uint32_t alignment) {
  for (uint32_t start = 0; start + n <= kBlocksPerHugePage; start += alignment) {
    bool free = true;
    for (uint32_t i = 0; i < n; ++i) free &= !used[start + i];
    if (free) return start;
  }
  return kBlocksPerHugePage;
}

uint32_t naive_longest(const bool* used) {
  uint32_t longest = 0, run = 0;
  for (uint32_t i = 0; i < kBlocksPerHugePage; ++i) {
    run = used[i] ? 0 : run + 1;
    longest = run > longest ? run : longest;
  }
  return longest;
}

uint32_t naive_start(const bool* used, uint32_t i) {
  while (i != 0 && !used[i - 1]) --i;
  return i;
}

TEST(BlockBits, AgreesWithAnArrayOfBools) {
  std::mt19937 random(11);
  BlockBits bits;
  bool used[kBlocksPerHugePage] = {};
  for (int step = 0; step < 5000; ++step) {
    const uint32_t first = random() % kBlocksPerHugePage;
    const uint32_t n = 1 + random() % (kBlocksPerHugePage - first);
    const bool set = random() % 2;
    const uint32_t part = n > 70 && random() % 4 ? n % 70 + 1 : n;
    set ? bits.set(first, part) : bits.clear(first, part);
    for (uint32_t i = 0; i < part; ++i) used[first + i] = set;
    uint32_t count = 0;
    for (bool b : used) count += b;
    ASSERT_EQ(bits.count(), count);
    ASSERT_EQ(bits.longest_clear(), naive_longest(used));
    for (const uint32_t i : {first, first + part - 1})
      ASSERT_EQ(bits.start_of_clear(i), naive_start(used, i));
    const uint32_t want = 1 + random() % 40;
    const uint32_t alignment = 1u << random() % 8;
    ASSERT_EQ(bits.find_clear(want, alignment), naive_find(used, want, alignment));
  }
}

}  // namespace
}  // namespace llamalloc
