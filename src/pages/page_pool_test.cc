// SPDX-License-Identifier: Apache-2.0
#include "pages/page_pool.h"

#include <gtest/gtest.h>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

class PagePoolTest : public testing::Test {
 protected:
  // Five pages are emptied, and given back a second later.
  void SetUp() override {
    HugePage* pages[5];
    for (HugePage*& page : pages) page = pool_.acquire();
    first_ = pages[0];
    for (HugePage* page : pages) pool_.put_empty(page, system_.time);
    system_.time = system_.time + Nanos::seconds(1);
    ASSERT_EQ(pool_.release(system_.time, 0), 5u);
  }
  FakePages system_;
  MetadataArena arena_{system_};
  NoPageTables tables_;
  PagePool pool_{system_, arena_, tables_};
  HugePage* first_ = nullptr;
};

TEST_F(PagePoolTest, OneThatIsFetchedIsTheNextOneTaken) {
  Nanos price{};
  ASSERT_TRUE(pool_.fetch_one(system_.time, &price));
  EXPECT_GT(price.n, 0);
  const PoolCounts counts = pool_.counts();
  EXPECT_EQ(counts.empty_backed, 1u);
  EXPECT_EQ(counts.acquired, 6u);
  EXPECT_EQ(counts.refetched, 1u);
  EXPECT_TRUE(pool_.has_empty());
  EXPECT_TRUE(pool_.is_consistent());
  EXPECT_EQ(pool_.acquire(), first_);
  EXPECT_EQ(pool_.counts().refetched, 1u) << "it had its memory";
}

TEST_F(PagePoolTest, OnlyWhatWasAwayForSoLongIsFetched) {
  Nanos price{};
  EXPECT_FALSE(pool_.fetch_one(system_.time - Nanos::seconds(2), &price));
  system_.time = system_.time + Nanos::seconds(2);
  EXPECT_TRUE(pool_.fetch_one(system_.time - Nanos::seconds(2), &price));
}

TEST_F(PagePoolTest, WhereNothingWentBackNothingIsFetched) {
  Nanos price{};
  for (int i = 0; i < 5; ++i) pool_.acquire();
  EXPECT_FALSE(pool_.fetch_one(system_.time, &price));
}

}  // namespace
}  // namespace llamalloc
