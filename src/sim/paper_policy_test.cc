// SPDX-License-Identifier: Apache-2.0
// The rules of papers/000 section 6, one by one.
#include "sim/paper_policy.h"

#include <gtest/gtest.h>

namespace llamalloc::sim {
namespace {

class PaperPolicyTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(policy_.open()); }

  uint64_t allocate(uint64_t size, LifetimeClass lifetime = LifetimeClass::le_3s) {
    const uint64_t address = policy_.allocate({size, now_, 0, lifetime, 4});
    policy_.ledger().touch(address, size);
    return address;
  }
  void free(uint64_t address, uint64_t size) { policy_.free(address, size, 0, now_); }
  void pass(Nanos time) { policy_.advance(now_ = now_ + time); }
  // Fills one huge page of a class by large objects; their addresses.
  std::vector<uint64_t> fill_page(LifetimeClass lifetime) {
    std::vector<uint64_t> blocks;
    for (size_t i = 0; i < kBlocksPerHugePage / 2; ++i) blocks.push_back(allocate(8193, lifetime));
    return blocks;
  }

  PaperPolicy policy_{2};
  Nanos now_ = Nanos::seconds(1000);
};

TEST_F(PaperPolicyTest, AClosedSpanTakesNothingUntilItsPagesDeadlineHasPassed) {
  std::vector<uint64_t> filled;
  for (int i = 0; i < 16; ++i) filled.push_back(allocate(1024));
  const uint64_t in_next = allocate(1024);
  EXPECT_GE(in_next, filled[0] + 16384) << "the first span is full";
  for (int i = 1; i < 16; ++i) free(filled[i], 1024);
  for (int i = 0; i < 15; ++i) EXPECT_GE(allocate(1024), in_next);
  EXPECT_GE(allocate(1024), in_next + 16384) << "close and wait";
}

TEST_F(PaperPolicyTest, SmallObjectsOfOneClassShareASpanAndOfTwoClassesDoNot) {
  const uint64_t a = allocate(100), b = allocate(100);
  EXPECT_EQ(b - a, 112u);
  const uint64_t other = allocate(100, LifetimeClass::le_10ms);
  EXPECT_NE(other >> kHugePageShift, a >> kHugePageShift) << "one open page a class";
}

TEST_F(PaperPolicyTest, FreeBlocksOfALongerClassServeAShorterOne) {
  const auto blocks = fill_page(LifetimeClass::le_10s);
  free(blocks[7], 8193);
  free(blocks[8], 8193);
  EXPECT_EQ(allocate(8193, LifetimeClass::le_3s) >> kHugePageShift, blocks[0] >> kHugePageShift);
  EXPECT_NE(allocate(8193, LifetimeClass::le_100s) >> kHugePageShift, blocks[0] >> kHugePageShift);
}

TEST_F(PaperPolicyTest, APageWhoseObjectsOutliveTheDeadlineIsPromoted) {
  fill_page(LifetimeClass::le_3s);
  pass(Nanos::millis(5900));
  EXPECT_EQ(policy_.promotions(), 0u);
  pass(Nanos::millis(200));
  EXPECT_EQ(policy_.promotions(), 1u);
  pass(Nanos::seconds(19));
  EXPECT_EQ(policy_.promotions(), 1u) << "the deadline of the next class is farther";
  pass(Nanos::seconds(2));
  EXPECT_EQ(policy_.promotions(), 2u);
}

TEST_F(PaperPolicyTest, APageWithoutResidualBlocksIsDemoted) {
  const auto blocks = fill_page(LifetimeClass::le_10s);
  free(blocks[3], 8193);
  free(blocks[4], 8193);
  const uint64_t guest = allocate(8193, LifetimeClass::le_3s);
  ASSERT_EQ(guest >> kHugePageShift, blocks[0] >> kHugePageShift);
  for (size_t i = 0; i < blocks.size(); ++i)
    if (i != 3 && i != 4) free(blocks[i], 8193);
  EXPECT_EQ(policy_.demotions(), 1u);
  EXPECT_EQ(policy_.ledger().backed_pages(), 1u);
  pass(Nanos::millis(6100));
  EXPECT_EQ(policy_.promotions(), 1u) << "6 s from then on";
  pass(Nanos::seconds(15));
  EXPECT_EQ(policy_.promotions(), 1u) << "its deadline from before the demotion counts no more";
  free(guest, 8193);
  EXPECT_EQ(policy_.ledger().backed_pages(), 0u) << "an empty page goes back at once";
}

TEST_F(PaperPolicyTest, PastTheDeadlineFreeLinesServeAShorterClass) {
  std::vector<uint64_t> objects;
  for (size_t i = 0; i < kHugePageSize / 1024; ++i) objects.push_back(allocate(1024));
  const uint64_t next = allocate(1024);  // closes the last span of the page
  EXPECT_NE(next >> kHugePageShift, objects[0] >> kHugePageShift);
  for (size_t i = 0; i < 8; ++i) free(objects[i], 1024);
  const uint64_t before = allocate(64, LifetimeClass::le_10ms);
  EXPECT_NE(before >> kHugePageShift, objects[0] >> kHugePageShift);
  pass(Nanos::seconds(7));
  const uint64_t after = allocate(64, LifetimeClass::le_100ms);
  EXPECT_EQ(after, objects[0]);
}

}  // namespace
}  // namespace llamalloc::sim
