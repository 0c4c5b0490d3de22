// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "os/fake/fake_pages.h"
#include "pages/page_heap.h"

namespace llamalloc {
namespace {

constexpr Blocks kHalf{kBlocksPerHugePage / 2};
constexpr Blocks kKept{2};

class MendedPagesTest : public testing::Test {
 protected:
  PageHeap::Place take(Blocks blocks, PageGroup group = PageGroup::session) {
    const PageHeap::Place place = pages_.take(group, blocks, 1);
    memset(place.start(), 7, blocks.bytes());
    return place;
  }
  void give(const PageHeap::Place& place, Blocks blocks) {
    pages_.give(place.page, place.start(), blocks);
  }
  Breaking look(uint32_t mend_from = BreakRules::kMendFrom) {
    return pages_.break_pages({.before = system_.time - Nanos::seconds(2), .mend_from = mend_from});
  }
  // So many pages with kKept blocks, broken.
  std::vector<PageHeap::Place> broken_pages(size_t count, PageGroup group = PageGroup::session) {
    std::vector<PageHeap::Place> kept, rest;
    for (size_t i = 0; i < count; ++i) {
      kept.push_back(take(kKept, group));
      rest.push_back(take({kBlocksPerHugePage - kKept.n}, group));
    }
    for (const PageHeap::Place& place : rest) give(place, {kBlocksPerHugePage - kKept.n});
    rest_awhile();
    EXPECT_EQ(look().pages, count);
    return kept;
  }
  // .. and half of it in use again.
  PageHeap::Place half_full_page() {
    kept_ = broken_pages(1).front();
    const PageHeap::Place half = take(kHalf);
    EXPECT_EQ(half.page, kept_.page);
    return half;
  }
  void rest_awhile() { system_.time = system_.time + Nanos::seconds(3); }
  size_t backed() const { return pages_.demand().level().backed; }
  static bool holds(const PageHeap::Place& place, Blocks blocks, char mark) {
    for (size_t i = 0; i < blocks.bytes(); ++i)
      if (place.start()[i] != mark) return false;
    return true;
  }

  FakePages system_;
  MetadataArena arena_{system_};
  NoPageTables tables_;
  PageSets sets_;
  PageHeap pages_{system_, arena_, tables_, sets_};
  PageHeap::Place kept_;
};

TEST_F(MendedPagesTest, APageThatIsMadeHugeHasAllItsMemory) {
  const HugePage* page = half_full_page().page;
  const Breaking done = look();
  EXPECT_EQ(done.mended, 1u);
  EXPECT_EQ(done.unmended, 0u);
  EXPECT_FALSE(page->broken);
  EXPECT_EQ(backed(), kHugePageSize);
  EXPECT_EQ(pages_.broken(), 0u);
  EXPECT_EQ(pages_.unbacked_bytes(), 0u);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(MendedPagesTest, APageThatTheSystemDoesNotMakeHugeStaysBroken) {
  const PageHeap::Place half = half_full_page();
  const size_t before = backed();
  const int huge = system_.huge_advice, small = system_.small_advice;
  system_.collapse_gives = Collapse::refused;
  const Breaking done = look();
  EXPECT_EQ(done.mended, 0u);
  EXPECT_EQ(done.unmended, 1u);
  EXPECT_TRUE(half.page->broken);
  EXPECT_EQ(half.page->dirty.count(), kHalf.n + kKept.n);
  EXPECT_EQ(backed(), before);
  EXPECT_EQ(pages_.broken(), 1u);
  EXPECT_EQ(pages_.unbacked_bytes(), kHugePageSize - kHalf.bytes() - kKept.bytes());
  EXPECT_EQ(system_.small_advice - small, system_.huge_advice - huge)
      << "else the system fills it, and nobody sees that";
  EXPECT_TRUE(pages_.is_consistent());
  system_.collapse_gives = Collapse::done;
  EXPECT_EQ(look().mended, 1u);
  EXPECT_FALSE(half.page->broken);
  EXPECT_EQ(backed(), kHugePageSize);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(MendedPagesTest, PagesThatAreAlwaysRefusedKeepNoOthersFromTheirTurn) {
  const std::vector<PageHeap::Place> kept = broken_pages(6);
  for (size_t i = 0; i < kept.size(); ++i) take(kHalf);
  system_.refuse_collapse_below = kept[4].page->base;
  for (int round = 0; round < 10; ++round) look();
  EXPECT_TRUE(kept[0].page->broken);
  EXPECT_FALSE(kept[4].page->broken);
  EXPECT_FALSE(kept[5].page->broken);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(MendedPagesTest, WhatIsTakenAfterARefusalIsCountedAndReadsAsZero) {
  const PageHeap::Place half = half_full_page();
  system_.collapse_gives = Collapse::refused;
  look();
  const size_t before = backed();
  const PageHeap::Place more = pages_.take(PageGroup::session, {8}, 1);
  ASSERT_EQ(more.page, half.page);
  EXPECT_TRUE(more.fresh);
  EXPECT_TRUE(holds(more, {8}, 0));
  EXPECT_EQ(backed(), before + 8 * kBlockSize);
  EXPECT_TRUE(holds(half, kHalf, 7));
  EXPECT_TRUE(holds(kept_, kKept, 7));
}

// Else it keeps for good what a broken page gives back.
TEST_F(MendedPagesTest, WhatIsFreedInItAfterARefusalGoesBack) {
  const PageHeap::Place half = half_full_page();
  const PageHeap::Place more = take({8});
  ASSERT_EQ(more.page, half.page);
  give(more, {8});
  rest_awhile();
  system_.collapse_gives = Collapse::refused;
  EXPECT_EQ(look().given_back, 8 * kBlockSize);
  EXPECT_EQ(backed(), kHalf.bytes() + kKept.bytes());
  EXPECT_TRUE(pages_.is_consistent());
}

// The system may fill it at any time, as any page for which it has no huge one at hand.
TEST_F(MendedPagesTest, APageThatTheSystemMayMakeHugeLaterIsWholeButNotMended) {
  const HugePage* page = half_full_page().page;
  const int small = system_.small_advice;
  system_.collapse_gives = Collapse::later;
  const Breaking done = look();
  EXPECT_EQ(done.mended, 0u);
  EXPECT_EQ(done.unmended, 1u);
  EXPECT_FALSE(page->broken);
  EXPECT_EQ(backed(), kHugePageSize);
  EXPECT_EQ(system_.small_advice, small);
  EXPECT_TRUE(pages_.is_consistent());
  look();
  EXPECT_EQ(system_.collapse_calls, 1) << "once";
}

struct Meanwhile {
  PageHeap* pages;
  PageHeap::Place kept, half, taken;
  bool broken = false;
  size_t backed = 0;
};

TEST_F(MendedPagesTest, ItCountsAsWholeOnlyOnceItIsHuge) {
  const PageHeap::Place half = half_full_page();
  const size_t before = backed();
  Meanwhile state{&pages_, kept_, half, {}};
  system_.on_release_argument = &state;
  system_.on_collapse = [](void* argument) {
    auto& now = *static_cast<Meanwhile*>(argument);
    now.broken = now.half.page->broken;
    now.backed = now.pages->demand().level().backed;
    now.taken = now.pages->take(PageGroup::session, {8}, 1);
  };
  EXPECT_EQ(look().mended, 1u);
  EXPECT_TRUE(state.broken);
  EXPECT_EQ(state.backed, before);
  EXPECT_EQ(state.taken.page, half.page) << "its free blocks may be taken meanwhile";
  EXPECT_EQ(backed(), kHugePageSize);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(MendedPagesTest, OneThatIsEmptiedMeanwhileIsLeftAsAllEmptyOnesAre) {
  for (const Collapse gives : {Collapse::refused, Collapse::later, Collapse::done})
    for (const bool space_too : {false, true}) {
      Meanwhile state{&pages_, {}, half_full_page(), {}};
      state.kept = kept_;
      state.broken = space_too;
      const int huge = system_.huge_advice, small = system_.small_advice;
      system_.collapse_gives = gives;
      system_.on_release_argument = &state;
      system_.on_collapse = [](void* argument) {
        auto& now = *static_cast<Meanwhile*>(argument);
        now.pages->give(now.kept.page, now.kept.start(), kKept);
        now.pages->give(now.half.page, now.half.start(), kHalf);
        if (now.broken) now.pages->give_up_space();
      };
      look();
      system_.on_collapse = nullptr;
      system_.collapse_gives = Collapse::done;
      EXPECT_EQ(pages_.in_use(), 0u);
      EXPECT_EQ(system_.huge_advice - huge, system_.small_advice - small + 1);
      EXPECT_TRUE(pages_.is_consistent());
      pages_.release(Nanos::max(), 0);
      EXPECT_EQ(backed(), 0u);
    }
}

TEST_F(MendedPagesTest, FourRefusalsInARowEndTheRound) {
  std::vector<PageHeap::Place> kept = broken_pages(6);
  for (size_t i = 0; i < kept.size(); ++i) take(kHalf);
  system_.collapse_gives = Collapse::refused;
  EXPECT_EQ(look().unmended, 4u);
  EXPECT_EQ(pages_.broken(), 6u);
  EXPECT_TRUE(pages_.is_consistent());
}

// One call may take 50 ms, and the worker has more to do.
TEST_F(MendedPagesTest, ARoundMendsForAQuarterOfASecond) {
  std::vector<PageHeap::Place> kept = broken_pages(16);
  for (size_t i = 0; i < kept.size(); ++i) take(kHalf);
  system_.on_release_argument = &system_.time;
  system_.on_collapse = [](void* time) {
    auto& now = *static_cast<Nanos*>(time);
    now = now + Nanos::millis(50);
  };
  const Breaking first = look();
  EXPECT_EQ(first.mended, 5u);
  EXPECT_TRUE(first.mend_left);
  EXPECT_EQ(pages_.broken(), 11u);
  EXPECT_EQ(look().mended, 5u) << "the next ones";
  system_.on_collapse = nullptr;
  const Breaking last = look();
  EXPECT_EQ(last.mended, 6u);
  EXPECT_FALSE(last.mend_left);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(MendedPagesTest, ASetThatHasAlwaysMoreToMendKeepsNoOthersFromTheirTurn) {
  constexpr PageGroup kBusy = PageGroup::brief, kOther = PageGroup::permanent;
  std::vector<PageHeap::Place> busy = broken_pages(16, kBusy);
  const PageHeap::Place other = broken_pages(1, kOther).front();
  for (size_t i = 0; i < busy.size(); ++i) take(kHalf, kBusy);
  ASSERT_EQ(take(kHalf, kOther).page, other.page);
  system_.on_release_argument = &system_.time;
  system_.on_collapse = [](void* time) {
    auto& now = *static_cast<Nanos*>(time);
    now = now + Nanos::millis(300);
  };
  for (int round = 0; round < 3; ++round) EXPECT_EQ(look().mended, 1u);
  EXPECT_FALSE(other.page->broken);
}

// The time is over with its last page.
TEST_F(MendedPagesTest, NeitherDoesOneThatHasJustAsMuchAsARoundMends) {
  constexpr PageGroup kBusy = PageGroup::brief, kOther = PageGroup::permanent;
  const PageHeap::Place busy = broken_pages(1, kBusy).front();
  const PageHeap::Place other = broken_pages(1, kOther).front();
  ASSERT_EQ(take(kHalf, kBusy).page, busy.page);
  ASSERT_EQ(take(kHalf, kOther).page, other.page);
  system_.on_release_argument = &system_.time;
  system_.on_collapse = [](void* time) {
    auto& now = *static_cast<Nanos*>(time);
    now = now + Nanos::seconds(3);
  };
  for (int round = 0; round < 4; ++round) {
    rest_awhile();
    take({1}, kOther);
    const Breaking done =
        pages_.break_pages({.before = system_.time - Nanos::seconds(2), .works = true});
    EXPECT_EQ(done.mended, 1u);
    EXPECT_TRUE(busy.page->broken) << "again";
  }
  EXPECT_FALSE(other.page->broken);
}

TEST_F(MendedPagesTest, AfterRefusalsItTriesEverMoreRarely) {
  half_full_page();
  system_.collapse_gives = Collapse::refused;
  int tries[3];
  for (int& n : tries) {
    const int before = system_.collapse_calls;
    for (int round = 0; round < 100; ++round) look();
    n = system_.collapse_calls - before;
  }
  EXPECT_LT(tries[0], 15);
  EXPECT_LE(tries[1], 2);
  EXPECT_LE(tries[2], 2);
  system_.collapse_gives = Collapse::done;
  size_t mended = 0;
  for (int round = 0; round < 300; ++round) mended += look().mended;
  EXPECT_EQ(mended, 1u) << "the system may have huge pages again";
}

TEST_F(MendedPagesTest, RefusalsToMendDoNotKeepFromBreaking) {
  std::vector<PageHeap::Place> kept = broken_pages(4);
  for (size_t i = 0; i < kept.size(); ++i) take(kHalf);
  system_.collapse_gives = Collapse::refused;
  look();
  ASSERT_EQ(system_.collapse_calls, 4);
  constexpr Blocks kMost{kBlocksPerHugePage - kKept.n};
  const PageHeap::Place most = take(kMost), rest = take(kKept);
  ASSERT_EQ(most.page, rest.page);
  give(most, kMost);
  rest_awhile();
  EXPECT_EQ(look().given_back, kMost.bytes());
  EXPECT_EQ(system_.collapse_calls, 4);
}

// The blocks that have no memory get it by mending.
TEST_F(MendedPagesTest, NearALimitOnlyNearlyFullPagesAreMended) {
  const HugePage* page = half_full_page().page;
  EXPECT_EQ(look(BreakRules::kMendNearLimit).mended, 0u);
  EXPECT_TRUE(page->broken);
  constexpr Blocks kLess{BreakRules::kMendNearLimit - kHalf.n - kKept.n - 1};
  const PageHeap::Place more = take(kLess);
  ASSERT_EQ(more.page, page);
  EXPECT_EQ(look(BreakRules::kMendNearLimit).mended, 0u);
  ASSERT_TRUE(pages_.extend(more.page, more.start(), kLess, {kLess.n + 1}));
  const size_t before = backed();
  EXPECT_EQ(look(BreakRules::kMendNearLimit).mended, 1u);
  EXPECT_LE(backed() - before, size_t{64} << 10);
}

}  // namespace
}  // namespace llamalloc
