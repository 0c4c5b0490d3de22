// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "heap/heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr Nanos kDelay = Nanos::seconds(2);

class BrokenPagesTest : public testing::Test {
 protected:
  char* one(size_t size) {
    return static_cast<char*>(
        heap_.take_one(bin_of(PageGroup::session, size_class_of(size), false)));
  }
  // A page that was full of what is written, and holds one object of 1,000 bytes now.
  char* nearly_empty_page() {
    char* slot = one(1000);
    memset(slot, 7, 1000);
    Span* run = heap_.allocate(kRunMax, 1, PageGroup::session, false);
    memset(run->base, 7, kRunMax);
    heap_.deallocate(run);
    heap_.release(Nanos{}, 0);  // a parked run counts as used
    system_.time = system_.time + Nanos::seconds(3);
    return slot;
  }
  size_t break_pages() { return heap_.break_idle_pages(system_.time - kDelay); }
  HugePage* page_of(const void* p) { return heap_.find(p)->page; }
  size_t resident(const HugePage* page) { return system_.resident(page->base, kHugePageSize); }
  GroupCounts counts() { return heap_.count(PageGroup::session); }

  FakePages system_;
  MetadataArena arena_{system_};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_, arena_, *tables_};
};

TEST_F(BrokenPagesTest, WhatIsFreeOfANearlyEmptyPageGoesBack) {
  char* slot = nearly_empty_page();
  const HugePage* page = page_of(slot);
  EXPECT_GE(resident(page), kRunMax);
  const size_t span = kSizeClassRows[size_class_of(1000)].blocks * kBlockSize;
  EXPECT_EQ(break_pages(), kHugePageSize - span);
  EXPECT_LE(resident(page), span);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(slot[i], 7);
  EXPECT_EQ(counts().broken, 1u);
  EXPECT_EQ(counts().unbacked, kHugePageSize - span);
  EXPECT_EQ(counts().free_blocks, kHugePageSize - span) << "they are free still";
  EXPECT_EQ(break_pages(), 0u) << "once";
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(BrokenPagesTest, NotOfAPageThatIsInUseOrHoldsMore) {
  nearly_empty_page();
  one(4096);  // takes blocks
  EXPECT_EQ(break_pages(), 0u);
  system_.time = system_.time + kDelay;
  heap_.allocate(kRunMax / 4, 1, PageGroup::session, false);
  system_.time = system_.time + kDelay;
  EXPECT_EQ(break_pages(), 0u) << "more than an eighth of it is used";
}

TEST_F(BrokenPagesTest, WhatIsTakenOfItReadsAsZero) {
  char* slot = nearly_empty_page();
  break_pages();
  Span* run = heap_.allocate(kRunMax / 2, 1, PageGroup::session, false);
  ASSERT_EQ(run->page, page_of(slot));
  EXPECT_TRUE(run->fresh);
  for (size_t i = 0; i < run->bytes; i += 4096) ASSERT_EQ(run->base[i], 0);
  EXPECT_EQ(counts().unbacked,
            kHugePageSize - run->bytes - kSizeClassRows[size_class_of(1000)].blocks * kBlockSize);
}

TEST_F(BrokenPagesTest, HalfFullItBecomesHugeAgain) {
  const HugePage* page = page_of(nearly_empty_page());
  break_pages();
  const int advice = system_.huge_advice;
  heap_.allocate(kRunMax / 2, 1, PageGroup::session, false);
  break_pages();
  EXPECT_TRUE(page->broken);
  EXPECT_EQ(heap_.allocate(kRunMax / 2, 1, PageGroup::session, false)->page, page);
  break_pages();
  EXPECT_FALSE(page->broken);
  EXPECT_EQ(system_.huge_advice, advice + 1);
  EXPECT_EQ(system_.collapsed, kHugePageSize);
  EXPECT_EQ(counts().broken, 0u);
}

TEST_F(BrokenPagesTest, AnEmptyOneIsHugeWhenItIsUsedAgain) {
  char* slot = nearly_empty_page();
  HugePage* page = page_of(slot);
  break_pages();
  heap_.give_one(slot);
  EXPECT_EQ(heap_.pages_in_use(), 0u);
  const int advice = system_.huge_advice;
  EXPECT_EQ(heap_.release(Nanos::max(), 0), 1u);
  EXPECT_EQ(system_.huge_advice, advice + 1);
  EXPECT_EQ(page_of(one(1000)), page);
  EXPECT_FALSE(page->broken);
}

struct Interruption {
  Heap* heap;
  char* slot;
  char* taken = nullptr;
};

// Its last object is freed, and somebody looks for room, just while the rest is on its way back.
TEST_F(BrokenPagesTest, NobodyGetsWhatIsBeingGivenBack) {
  Interruption state{&heap_, nearly_empty_page()};
  HugePage* page = page_of(state.slot);
  system_.on_release_argument = &state;
  system_.on_release = [](void* argument) {
    auto& now = *static_cast<Interruption*>(argument);
    if (now.taken != nullptr) return;
    now.taken = static_cast<char*>(
        now.heap->take_one(bin_of(PageGroup::session, size_class_of(30'000), false)));
    now.heap->give_one(now.slot);
  };
  break_pages();
  system_.on_release = nullptr;
  EXPECT_NE(page_of(state.taken), page);
  EXPECT_EQ(heap_.pages_in_use(), 1u) << "what became empty meanwhile is not lost";
  EXPECT_EQ(heap_.pool_counts().empty_backed, 1u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(BrokenPagesTest, ASystemThatRefusesCostsNothing) {
  char* slot = nearly_empty_page();
  HugePage* page = page_of(slot);
  system_.calls_left = 0;
  EXPECT_EQ(break_pages(), 0u);
  system_.calls_left = INT64_MAX;
  Span* run = heap_.allocate(kRunMax, 1, PageGroup::session, false);
  EXPECT_EQ(run->page, page);
  EXPECT_FALSE(run->fresh) << "it holds what it held";
  EXPECT_TRUE(heap_.is_consistent());
}

}  // namespace
}  // namespace llamalloc
