// SPDX-License-Identifier: Apache-2.0
#include "pages/page_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <vector>

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

// The system counts what is committed. The five pages are given back once more.
class CommittedPagesTest : public PagePoolTest {
 protected:
  void SetUp() override {
    PagePoolTest::SetUp();
    for (int i = 0; i < 5; ++i) pages_.push_back(pool_.acquire());
    for (HugePage* page : pages_) *page->base = 1;
    committed_ = pool_.counts().committed_bytes;
    pool_.uncommit_empty(true);
    for (HugePage* page : pages_) pool_.put_empty(page, system_.time);
    system_.time = system_.time + Nanos::seconds(1);
  }
  size_t given_up() { return committed_ - pool_.counts().committed_bytes; }
  static void be_child(void* self) { static_cast<CommittedPagesTest*>(self)->be_child(); }
  [[noreturn]] void be_child() {
    if (answered_) system_pages.uncommit(first_->base, kHugePageSize);
    pool_.keep_what_was_leaving();
    HugePage* const page = pool_.acquire();
    *page->base = 1;
    _exit(page == first_ && pool_.is_consistent() ? 0 : 1);
  }

  std::vector<HugePage*> pages_;
  size_t committed_ = 0;
  bool answered_ = false;
};

// data + stack of /proc/self/statm: private memory that the process may write to.
size_t writable_bytes() {
  size_t pages = 0;
  std::ifstream file("/proc/self/statm");
  for (int i = 0; i < 6; ++i) file >> pages;
  return pages * kSmallPage;
}

TEST_F(CommittedPagesTest, WhatIsGivenBackIsNotCommitted) {
  const size_t before = writable_bytes();
  ASSERT_EQ(pool_.release(system_.time, 0), 5u);
  EXPECT_EQ(given_up(), 5 * kHugePageSize);
  EXPECT_LE(writable_bytes() + 5 * kHugePageSize, before + kHugePageSize);
  const int advised = system_.huge_advice + system_.small_advice;
  HugePage* const page = pool_.acquire();
  ASSERT_EQ(page, first_);
  EXPECT_EQ(*page->base, 0);
  *page->base = 1;
  EXPECT_EQ(given_up(), 4 * kHugePageSize);
  EXPECT_EQ(system_.huge_advice + system_.small_advice, advised + 1) << "advice is forgotten";
  EXPECT_TRUE(pool_.is_consistent());
  ASSERT_TRUE(pool_.give_up_space());
  EXPECT_EQ(pool_.counts().committed_bytes, kHugePageSize);
  HugePage* const new_page = pool_.acquire();
  pool_.put_empty(new_page, system_.time);
  ASSERT_EQ(pool_.acquire(), new_page);
  EXPECT_EQ(pool_.counts().committed_bytes, 2 * kHugePageSize) << "its record is not a new one";
}

TEST_F(CommittedPagesTest, WhereThatIsRefusedItsMemoryGoesAllTheSame) {
  system_.refuse_uncommit = true;
  ASSERT_EQ(pool_.release(system_.time, 0), 5u);
  EXPECT_EQ(given_up(), 0u);
  EXPECT_EQ(system_.resident(first_->base, kHugePageSize), 0u);
  *pool_.acquire()->base = 1;
}

TEST_F(CommittedPagesTest, APageThatCannotBeCommittedStaysGivenBack) {
  ASSERT_EQ(pool_.release(system_.time, 0), 5u);
  Nanos price{};
  system_.calls_left = 0;
  EXPECT_EQ(pool_.acquire(), nullptr);
  EXPECT_FALSE(pool_.fetch_one(system_.time, &price));
  EXPECT_EQ(pool_.in_use(), 0u);
  EXPECT_EQ(given_up(), 5 * kHugePageSize);
  EXPECT_TRUE(pool_.is_consistent());
  system_.calls_left = INT64_MAX;
  EXPECT_TRUE(pool_.fetch_one(system_.time, &price));
  EXPECT_EQ(given_up(), 4 * kHugePageSize);
  *pool_.acquire()->base = 1;
}

// A child is forked while the system is asked, and does not know whether it has answered.
TEST_F(CommittedPagesTest, AChildCommitsWhatWasLeaving) {
  for (const bool answered : {false, true}) {
    answered_ = answered;
    system_.on_release = be_child;
    system_.on_release_argument = this;
    EXPECT_EXIT(pool_.release(system_.time, 0), testing::ExitedWithCode(0), "") << answered;
  }
}

}  // namespace
}  // namespace llamalloc
