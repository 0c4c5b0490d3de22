// SPDX-License-Identifier: Apache-2.0
#include "sim/page_ledger.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace llamalloc::sim {
namespace {

TEST(PageLedgerTest, AgreesWithASetOfSmallPages) {
  PageLedger ledger;
  std::set<uint64_t> touched;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 50 == 0) {
      const uint64_t page = random() % 20;
      ledger.discard(page);
      for (uint64_t p = 0; p < kSmallPagesPerHuge; ++p)
        touched.erase(page * kSmallPagesPerHuge + p);
      continue;
    }
    const uint64_t offset = random() % (20 * kHugePageSize);
    const uint64_t bytes = 1 + random() % (random() % 10 ? 500 : kHugePageSize * 2);
    ledger.touch(offset, bytes);
    for (uint64_t p = offset / kSmallPage; p <= (offset + bytes - 1) / kSmallPage; ++p)
      touched.insert(p);
    ASSERT_EQ(ledger.touched_bytes(), touched.size() * kSmallPage);
  }
  std::set<uint64_t> huge;
  for (uint64_t p : touched) huge.insert(p / kSmallPagesPerHuge);
  EXPECT_EQ(ledger.backed_pages(), huge.size());
  EXPECT_TRUE(ledger.is_consistent());
}

TEST(PageLedgerTest, APartOfAPageGoesBack) {
  PageLedger ledger;
  ledger.keep_small(1, true);
  ledger.touch(kHugePageSize, 10 * kSmallPage);
  ledger.discard_part(kHugePageSize + 2 * kSmallPage, 4 * kSmallPage);
  ledger.discard_part(kHugePageSize + 2 * kSmallPage, kSmallPage);
  EXPECT_EQ(ledger.resident_bytes(), 6 * kSmallPage);
  EXPECT_EQ(ledger.touched_bytes(), 6 * kSmallPage);
  EXPECT_TRUE(ledger.is_consistent());
  ledger.discard_part(kHugePageSize, 10 * kSmallPage);
  EXPECT_EQ(ledger.backed_pages(), 0u);
  EXPECT_TRUE(ledger.is_consistent());
}

TEST(PageLedgerTest, SmallPagesAreResidentAsTouchedUntilTheyBecomeHuge) {
  PageLedger ledger;
  ledger.keep_small(0, true);
  ledger.touch(100, 1);
  ledger.touch(kHugePageSize, 1);
  EXPECT_EQ(ledger.resident_bytes(), kSmallPage + kHugePageSize);
  EXPECT_EQ(ledger.huge_bytes(), kHugePageSize);
  ledger.keep_small(0, false);
  EXPECT_EQ(ledger.resident_bytes(), 2 * kHugePageSize);
  EXPECT_EQ(ledger.acquired(), 2u);
  EXPECT_TRUE(ledger.is_consistent());
}

}  // namespace
}  // namespace llamalloc::sim
