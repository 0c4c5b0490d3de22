// SPDX-License-Identifier: Apache-2.0
#include "sim/thread_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/sim_pages.h"

namespace llamalloc::sim {
namespace {

class ThreadCacheTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pages_.open()); }

  SimPages pages_;
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  MetadataArena arena_{pages_};
  Heap heap_{pages_, arena_, *tables_};
  ThreadCache cache_{heap_};
  static constexpr int kBin = bin_of(PageGroup::unknown, 3, false);  // 64 bytes
};

TEST_F(ThreadCacheTest, HoldsNoMoreThanItNeedsAndReturnsAllOfIt) {
  std::mt19937_64 random(5);
  std::vector<std::pair<int, char*>> live;
  for (int i = 0; i < 50000; ++i) {
    if (live.empty() || random() % 2) {
      const int bin = static_cast<int>(random() % kLocalBins);
      live.emplace_back(bin, cache_.take(bin, 1));
      ASSERT_NE(live.back().second, nullptr);
    } else {
      std::swap(live[random() % live.size()], live.back());
      cache_.put(live.back().first, live.back().second, 1);
      live.pop_back();
    }
    if (i % 1000 == 0) {
      ASSERT_TRUE(cache_.is_consistent());
    }
  }
  EXPECT_LE(cache_.held_bytes(), size_t{1} << 20);
  for (const auto& [bin, slot] : live) cache_.put(bin, slot, 1);
  cache_.flush();
  EXPECT_EQ(cache_.held_bytes(), 0u);
  EXPECT_TRUE(heap_.is_consistent());
  for (int g = 0; g < kPageGroups; ++g) EXPECT_EQ(heap_.count(static_cast<PageGroup>(g)).pages, 0u);
}

TEST_F(ThreadCacheTest, HandsOutTheSlotFreedLast) {
  std::vector<char*> slots;
  for (int i = 0; i < 100; ++i) slots.push_back(cache_.take(kBin, 1));
  for (char* slot : slots) cache_.put(kBin, slot, 1);
  EXPECT_EQ(cache_.take(kBin, 1), slots.back());
}

TEST_F(ThreadCacheTest, AThreadThatIsCalledInReturnsWhatItHoldsAtItsNextAllocation) {
  for (int i = 0; i < 3; ++i) cache_.put(kBin, cache_.take(kBin, 1), 1);
  EXPECT_GT(cache_.held_bytes(), 0u);
  cache_.call_in();
  EXPECT_GT(cache_.held_bytes(), 0u);
  char* slot = cache_.take(bin_of(PageGroup::unknown, 30, false), 1);
  EXPECT_NE(slot, nullptr);
  EXPECT_LT(cache_.held_bytes(), 8192u) << "only of the new bin";
}

}  // namespace
}  // namespace llamalloc::sim
