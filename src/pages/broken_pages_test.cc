// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "os/fake/fake_pages.h"
#include "pages/page_heap.h"

namespace llamalloc {
namespace {

constexpr Nanos kDelay = Nanos::seconds(2);
constexpr Blocks kHalf{kBlocksPerHugePage / 2};
constexpr Blocks kQuarter{kBlocksPerHugePage / 4};
constexpr Blocks kKept{2};

class BrokenPagesTest : public testing::Test {
 protected:
  PageHeap::Place take(Blocks blocks) { return pages_.take(PageGroup::session, blocks, 1); }
  void give(const PageHeap::Place& place, Blocks blocks) {
    pages_.give(place.page, place.start(), blocks);
  }
  // Two blocks of a page that was full of written memory.
  PageHeap::Place nearly_empty_page() {
    const PageHeap::Place kept = take(kKept), rest = take(kHalf);
    memset(kept.start(), 7, kKept.bytes());
    memset(rest.start(), 7, kHalf.bytes());
    give(rest, kHalf);
    system_.time = system_.time + Nanos::seconds(3);
    return kept;
  }
  size_t break_pages() { return pages_.break_idle(system_.time - kDelay); }
  size_t break_later() {
    system_.time = system_.time + kDelay;
    return break_pages();
  }
  size_t break_after(int64_t seconds, int64_t slower = 1) {
    system_.time = system_.time + Nanos::seconds(seconds);
    return pages_
        .break_pages({.before = system_.time - kDelay,
                      .rest = kDelay,
                      .rest_of_fuller = {slower * kDelay.n}})
        .given_back;
  }
  size_t resident(const HugePage* page) { return system_.resident(page->base, kHugePageSize); }

  FakePages system_;
  MetadataArena arena_{system_};
  NoPageTables tables_;
  PageSets sets_;
  PageHeap pages_{system_, arena_, tables_, sets_};
};

// So many runs of broken pages, whatever their length.
TEST_F(BrokenPagesTest, BrokenPagesSideBySideCountAsOne) {
  constexpr int kPages = 12;
  pages_.limit_broken_runs(3);
  PageHeap::Place rest[kPages + 1];
  for (PageHeap::Place& place : rest) take(kKept), place = take({kBlocksPerHugePage - kKept.n});
  for (int i = 0; i < kPages; i += 2) give(rest[i], {kBlocksPerHugePage - kKept.n});
  for (int i = 0; i < 4; ++i) break_later();
  EXPECT_EQ(pages_.broken(), 3u) << "every other one";
  for (int i = 1; i < kPages; i += 2) give(rest[i], {kBlocksPerHugePage - kKept.n});
  for (int i = 0; i < kPages; ++i) break_later();
  EXPECT_EQ(pages_.broken(), size_t{kPages});
  give(rest[kPages], {kBlocksPerHugePage - kKept.n});
  break_later();
  EXPECT_EQ(pages_.broken(), size_t{kPages}) << "four times as many pages as runs";
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(BrokenPagesTest, TheFreePartOfANearlyEmptyPageGoesBack) {
  const PageHeap::Place kept = nearly_empty_page();
  EXPECT_GE(resident(kept.page), kHalf.bytes());
  EXPECT_EQ(break_pages(), kHugePageSize - kKept.bytes());
  EXPECT_LE(resident(kept.page), kKept.bytes());
  for (size_t i = 0; i < kKept.bytes(); ++i) ASSERT_EQ(kept.start()[i], 7);
  EXPECT_TRUE(kept.page->broken);
  EXPECT_EQ(kept.page->used_blocks, kKept.n) << "the others are free still";
  EXPECT_EQ(kept.page->dirty.count(), kKept.n);
  EXPECT_EQ(break_pages(), 0u) << "once";
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(BrokenPagesTest, NotOfAPageThatIsInUseOrHoldsMore) {
  nearly_empty_page();
  take(kKept);
  EXPECT_EQ(break_pages(), 0u);
  system_.time = system_.time + kDelay;
  take({3 * kQuarter.n});
  system_.time = system_.time + kDelay;
  EXPECT_EQ(break_pages(), 0u) << "more than three quarters of it are used";
}

TEST_F(BrokenPagesTest, AFullerOneIsLeftLonger) {
  nearly_empty_page();
  take({kBlocksPerHugePage / 4 - kKept.n});
  EXPECT_EQ(break_after(7), 0u) << "a quarter: four times as long as one with an eighth";
  EXPECT_EQ(break_after(2), kHugePageSize - kQuarter.bytes());
}

// Where the process works, its huge pages are worth more.
TEST_F(BrokenPagesTest, OneThatIsNotSparseIsLeftLongerTheMoreTheProcessWorks) {
  nearly_empty_page();
  take({kHalf.n - kKept.n});
  EXPECT_EQ(break_after(31), 0u) << "half: sixteen times as long as one with an eighth";
  EXPECT_EQ(break_after(2, 2), 0u) << "which is twice as long now";
  EXPECT_EQ(break_after(28, 2), 0u);
  EXPECT_EQ(break_after(2, 2), kHugePageSize - kHalf.bytes());
}

TEST_F(BrokenPagesTest, ASparseOneIsNot) {
  nearly_empty_page();
  take({kBlocksPerHugePage / 4 - kKept.n});
  EXPECT_EQ(break_after(9, 1000), kHugePageSize - kQuarter.bytes());
}

// Sets are looked at in order of their groups; what is broken first does not depend on that.
TEST_F(BrokenPagesTest, TheOneThatIsWorthItMostGoesFirstWhereverItIs) {
  pages_.share_pages_below(0);
  const auto of_group = [this](PageGroup group, Blocks kept) {
    const PageHeap::Place place = pages_.take(group, kept, 1), rest = pages_.take(group, kHalf, 1);
    memset(rest.start(), 7, kHalf.bytes());
    give(rest, kHalf);
    return place.page;
  };
  const HugePage* fuller = of_group(PageGroup::transient, {16});
  const HugePage* younger = of_group(PageGroup::permanent, {2});
  const HugePage* best = of_group(PageGroup::session, {2});
  system_.time = system_.time + Nanos::seconds(100);
  give(pages_.take(PageGroup::permanent, {1}, 1), {1});
  system_.time = system_.time + Nanos::seconds(90);
  const auto break_one = [this] {
    return pages_.break_pages({.before = system_.time - kDelay, .limit = kHugePageSize}).pages;
  };
  EXPECT_EQ(break_one(), 1u);
  EXPECT_TRUE(best->broken);
  EXPECT_EQ(break_one(), 1u);
  EXPECT_TRUE(fuller->broken) << "16 blocks less, at rest for twice as long";
  EXPECT_EQ(break_one(), 1u);
  EXPECT_TRUE(younger->broken);
}

TEST(BreakOrder, ABrokenPageCostsNoSplitAndNoMending) {
  const BreakCosts costs;
  const Nanos rest = Nanos::seconds(10);
  EXPECT_GT(worth_of_breaking(kHugePageSize / 2, rest, costs.of(false)),
            worth_of_breaking(kHugePageSize, rest, costs.of(true)));
}

TEST(BreakOrder, TheCostsFollowWhatIsMeasured) {
  BreakCosts costs;
  const Nanos rest = Nanos::seconds(10);
  for (int i = 0; i < 100; ++i) {
    costs.broke(true, Nanos{1'000});
    costs.mended(Nanos{1'000});
    costs.broke(false, Nanos{1'000'000});
  }
  EXPECT_LT(worth_of_breaking(kHugePageSize / 2, rest, costs.of(false)),
            worth_of_breaking(kHugePageSize, rest, costs.of(true)));
}

TEST(BreakOrder, AClockThatJumpsIsNoRest) {
  EXPECT_GT(worth_of_breaking(1, Nanos{-5}, Nanos{}), 0);
  EXPECT_LT(worth_of_breaking(1, Nanos{-5}, Nanos{1}), worth_of_breaking(1, Nanos{5}, Nanos{1}));
}

// A few slots that a server uses each second.
TEST_F(BrokenPagesTest, ObjectsThatTakeNoBlocksDoNotKeepAPageWhole) {
  const PageHeap::Place kept = nearly_empty_page();
  pages_.touch(kept.page);
  EXPECT_EQ(break_pages(), kHugePageSize - kKept.bytes());
}

TEST_F(BrokenPagesTest, ARunThatGrowsInPlaceTakesBlocks) {
  const PageHeap::Place kept = nearly_empty_page();
  ASSERT_TRUE(pages_.extend(kept.page, kept.start(), kKept, {kKept.n + 1}));
  EXPECT_EQ(break_pages(), 0u);
  system_.time = system_.time + kDelay;
  EXPECT_NE(break_pages(), 0u);
}

// A session lives for 200 s.
TEST_F(BrokenPagesTest, APageThatWillBeEmptySoonIsSpared) {
  nearly_empty_page();
  system_.time = system_.time + Nanos::seconds(170);
  const auto break_within = [this](int64_t seconds) {
    return pages_
        .break_pages({.before = system_.time - kDelay,
                      .now = system_.time,
                      .spared = system_.time + Nanos::seconds(seconds)})
        .given_back;
  };
  EXPECT_EQ(break_within(60), 0u);
  EXPECT_NE(break_within(10), 0u);
}

TEST_F(BrokenPagesTest, APageThatOthersAreStillPlacedInIsNot) {
  const PageHeap::Place kept = nearly_empty_page();
  system_.time = system_.time + Nanos::seconds(230);
  pages_.touch(kept.page);
  EXPECT_NE(pages_
                .break_pages({.before = system_.time - kDelay,
                              .now = system_.time,
                              .spared = system_.time + Nanos::seconds(300)})
                .given_back,
            0u);
}

TEST_F(BrokenPagesTest, WhatIsTakenOfItReadsAsZero) {
  const HugePage* page = nearly_empty_page().page;
  break_pages();
  const PageHeap::Place place = take(kQuarter);
  ASSERT_EQ(place.page, page);
  EXPECT_TRUE(place.fresh);
  for (size_t i = 0; i < kQuarter.bytes(); i += 4096) ASSERT_EQ(place.start()[i], 0);
  EXPECT_EQ(page->dirty.count(), kQuarter.n + kKept.n);
}

TEST_F(BrokenPagesTest, WhatFilledItAndIsFreedAgainGoesBackAgain) {
  const HugePage* page = nearly_empty_page().page;
  break_pages();
  const PageHeap::Place place = take(kHalf);
  ASSERT_EQ(place.page, page);
  memset(place.start(), 7, kHalf.bytes());
  give(place, kHalf);
  EXPECT_EQ(break_pages(), 0u) << "not at rest";
  system_.time = system_.time + Nanos::seconds(3);
  const int advice = system_.huge_advice;
  EXPECT_EQ(break_pages(), kHalf.bytes());
  EXPECT_EQ(page->dirty.count(), kKept.n);
  EXPECT_TRUE(page->broken);
  EXPECT_EQ(system_.huge_advice, advice) << "it consists of small pages already";
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(BrokenPagesTest, HalfFullItBecomesHugeAgain) {
  const HugePage* page = nearly_empty_page().page;
  break_pages();
  const int advice = system_.huge_advice;
  take(kQuarter);
  break_pages();
  EXPECT_TRUE(page->broken);
  EXPECT_EQ(take(kQuarter).page, page);
  break_pages();
  EXPECT_FALSE(page->broken);
  EXPECT_TRUE(pages_.is_consistent()) << "all its blocks count as backed again";
  EXPECT_EQ(system_.huge_advice, advice + 1);
  EXPECT_EQ(system_.collapsed, kHugePageSize);
}

// Else it would be mended a second after it was broken, and stay so.
TEST_F(BrokenPagesTest, OneThatWasFullerMustBeFullerThanThen) {
  const HugePage* page = nearly_empty_page().page;
  const PageHeap::Place more = take({144 - kKept.n});
  EXPECT_GT(break_after(60), 0u);
  EXPECT_TRUE(page->broken);
  take({31});
  break_pages();
  EXPECT_TRUE(page->broken);
  take({1});
  break_pages();
  EXPECT_FALSE(page->broken);
  give(more, {144 - kKept.n});
  EXPECT_GT(break_after(60), 0u);
  take({kHalf.n - page->used_blocks});
  break_pages();
  EXPECT_FALSE(page->broken) << "half full, as any that was sparse";
}

TEST_F(BrokenPagesTest, WhereTheProcessWorksHalfFullIsEnough) {
  const HugePage* page = nearly_empty_page().page;
  take({144 - kKept.n});
  EXPECT_GT(break_after(60), 0u);
  pages_.break_pages({.before = {}, .works = true});
  EXPECT_FALSE(page->broken);
}

TEST_F(BrokenPagesTest, WhatItWasDoesNotCountOnceItWasEmpty) {
  const PageHeap::Place kept = nearly_empty_page(), more = take({176 - kKept.n});
  EXPECT_GT(break_after(90), 0u);
  give(kept, kKept);
  give(more, {176 - kKept.n});
  ASSERT_EQ(pages_.in_use(), 0u);
  const HugePage* page = take(kHalf).page;
  ASSERT_EQ(page, kept.page);
  ASSERT_TRUE(page->broken);
  break_pages();
  EXPECT_FALSE(page->broken);
}

TEST_F(BrokenPagesTest, OnceItHasEmptiedHalfFullIsEnough) {
  const HugePage* page = nearly_empty_page().page;
  const PageHeap::Place more = take({144 - kKept.n});
  EXPECT_GT(break_after(60), 0u);
  give(more, {144 - kKept.n});
  EXPECT_GT(break_after(3), 0u) << "what it had";
  take({kHalf.n - kKept.n});
  break_pages();
  EXPECT_FALSE(page->broken);
}

TEST_F(BrokenPagesTest, WhatGoesBackOfItLaterAsksForNoMore) {
  const HugePage* page = nearly_empty_page().page;
  break_pages();
  take({kHalf.n - 2 * kKept.n});
  give(take({1}), {1});
  EXPECT_GT(break_after(3), 0u);
  take({kKept.n});
  break_pages();
  EXPECT_FALSE(page->broken);
}

TEST_F(BrokenPagesTest, AnEmptyOneIsHugeWhenItIsUsedAgain) {
  const PageHeap::Place kept = nearly_empty_page();
  break_pages();
  give(kept, kKept);
  EXPECT_EQ(pages_.in_use(), 0u);
  const int advice = system_.huge_advice;
  EXPECT_EQ(pages_.release(Nanos::max(), 0), 1u);
  EXPECT_EQ(system_.huge_advice, advice + 1);
  EXPECT_EQ(take(kKept).page, kept.page);
  EXPECT_FALSE(kept.page->broken);
}

struct Interruption {
  PageHeap* pages;
  PageHeap::Place kept;
  PageHeap::Place taken;
};

// Its last blocks are freed, and somebody looks for room, just while the rest is on its way back.
TEST_F(BrokenPagesTest, NobodyGetsWhatIsBeingGivenBack) {
  Interruption state{&pages_, nearly_empty_page(), {}};
  system_.on_release_argument = &state;
  system_.on_release = [](void* argument) {
    auto& now = *static_cast<Interruption*>(argument);
    if (now.taken.page != nullptr) return;
    now.taken = now.pages->take(PageGroup::session, kQuarter, 1);
    now.pages->give(now.kept.page, now.kept.start(), kKept);
  };
  break_pages();
  system_.on_release = nullptr;
  EXPECT_NE(state.taken.page, state.kept.page);
  EXPECT_EQ(pages_.in_use(), 1u) << "what became empty meanwhile is not lost";
  EXPECT_EQ(pages_.counts().empty_backed, 1u);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(BrokenPagesTest, ASystemThatRefusesCostsNothing) {
  const HugePage* page = nearly_empty_page().page;
  system_.calls_left = 0;
  EXPECT_EQ(break_pages(), 0u);
  system_.calls_left = INT64_MAX;
  const PageHeap::Place place = take(kHalf);
  EXPECT_EQ(place.page, page);
  EXPECT_FALSE(place.fresh) << "it holds what it held";
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(BrokenPagesTest, AHugePageIsSplitInItsFreePart) {
  const PageHeap::Place kept = nearly_empty_page();
  break_pages();
  EXPECT_EQ(system_.split_calls, 1);
  EXPECT_GE(system_.last_split, kept.start() + kKept.bytes());
}

// Else the system gives back what the figures say only when it likes.
TEST_F(BrokenPagesTest, APageThatTheSystemDoesNotSplitStaysWhole) {
  const PageHeap::Place kept = nearly_empty_page();
  const int huge = system_.huge_advice, small = system_.small_advice;
  system_.refuse_split = true;
  EXPECT_EQ(break_pages(), 0u);
  EXPECT_FALSE(kept.page->broken);
  EXPECT_EQ(kept.page->used_blocks, kKept.n);
  EXPECT_EQ(system_.huge_advice - huge, system_.small_advice - small);
  EXPECT_TRUE(pages_.is_consistent());
  const PageHeap::Place half = take(kHalf);
  EXPECT_EQ(half.page, kept.page);
  EXPECT_FALSE(half.fresh);
}

TEST_F(BrokenPagesTest, WhereTheSystemCannotSplitNothingIsBroken) {
  const PageHeap::Place kept = nearly_empty_page();
  system_.no_split = true;
  EXPECT_EQ(break_pages(), 0u);
  EXPECT_FALSE(kept.page->broken);
}

TEST_F(BrokenPagesTest, APageThatConsistedOfSmallOnesIsNotSplit) {
  const PageHeap::Place kept = nearly_empty_page();
  system_.huge_until_split = false;
  EXPECT_GT(break_pages(), 0u);
  EXPECT_TRUE(kept.page->broken);
}

TEST_F(BrokenPagesTest, WhereNobodyCountsSplitsTheyAreTrusted) {
  for (const bool may_ask : {true, false}) {
    const PageHeap::Place kept = nearly_empty_page();
    system_.refuse_split = true;
    system_.counted.known = !may_ask;
    pages_.count_splits(may_ask);
    EXPECT_GT(break_pages(), 0u);
    EXPECT_TRUE(kept.page->broken);
    pages_.give(kept.page, kept.start(), kKept);
    pages_.release(Nanos::max(), 0);
  }
}

TEST_F(BrokenPagesTest, AfterRefusalsItTriesEverMoreRarely) {
  nearly_empty_page();
  system_.refuse_split = true;
  int tries[3];
  for (int& n : tries) {
    const int before = system_.split_calls;
    for (int round = 0; round < 100; ++round) break_later();
    n = system_.split_calls - before;
  }
  EXPECT_LT(tries[0], 15);
  EXPECT_LE(tries[1], 2);
  EXPECT_LE(tries[2], 2);
  system_.refuse_split = false;
  size_t given_back = 0;
  for (int round = 0; round < 300; ++round) given_back += break_later();
  EXPECT_GT(given_back, 0u) << "a child that had the page may have ended";
}

// Those at rest for longest are tried first, but not again and again.
TEST_F(BrokenPagesTest, PagesThatTheSystemRefusesComeAfterTheOthers) {
  PageHeap::Place whole[6];
  for (PageHeap::Place& place : whole) {
    place = take(Blocks{kBlocksPerHugePage});
    system_.time = system_.time + Nanos::seconds(1);
  }
  for (const PageHeap::Place& place : whole)
    pages_.give(place.page, place.start() + kKept.bytes(), {kBlocksPerHugePage - kKept.n});
  system_.refuse_split_below = whole[4].page->base;
  for (int round = 0; round < 10; ++round) break_later();
  EXPECT_FALSE(whole[0].page->broken);
  EXPECT_TRUE(whole[4].page->broken);
  EXPECT_TRUE(whole[5].page->broken);
}

TEST_F(BrokenPagesTest, ABrokenPageIsFilledLast) {
  const HugePage* broken = nearly_empty_page().page;
  const PageHeap::Place full = take(Blocks{kBlocksPerHugePage});
  break_pages();
  ASSERT_TRUE(broken->broken);
  give(full, kHalf);
  EXPECT_GT(full.page->base, broken->base);
  EXPECT_EQ(take(kQuarter).page, full.page) << "though it lies higher";
  EXPECT_EQ(take(kQuarter).page, full.page);
  EXPECT_EQ(take(kQuarter).page, broken) << "before a new page";
}

// The last block is freed while the system refuses.
TEST_F(BrokenPagesTest, APageThatBecomesEmptyMeanwhileIsNotLost) {
  Interruption state{&pages_, nearly_empty_page(), {}};
  system_.refuse_split = true;
  system_.on_release_argument = &state;
  system_.on_release = [](void* argument) {
    auto& now = *static_cast<Interruption*>(argument);
    now.pages->give(now.kept.page, now.kept.start(), kKept);
  };
  EXPECT_EQ(break_pages(), 0u);
  system_.on_release = nullptr;
  EXPECT_EQ(pages_.in_use(), 0u);
  EXPECT_EQ(pages_.counts().empty_backed, 1u);
  EXPECT_TRUE(pages_.is_consistent());
}

class SmallPagesTest : public BrokenPagesTest {
 protected:
  SmallPagesTest() { pages_.grant_huge_pages(false); }
};

TEST_F(SmallPagesTest, WhatIsFreeGoesBackHoweverMuchThePageHolds) {
  const PageHeap::Place kept = nearly_empty_page();
  const PageHeap::Place quarter = take(kQuarter);
  ASSERT_EQ(quarter.page, kept.page);
  memset(quarter.start(), 7, kQuarter.bytes());
  EXPECT_EQ(break_pages(), 0u) << "it just took an object";
  system_.time = system_.time + Nanos::seconds(3);
  EXPECT_EQ(break_pages(), kHalf.bytes() - kQuarter.bytes());
  EXPECT_EQ(break_pages(), 0u) << "nothing is left to give";
  EXPECT_LE(resident(kept.page), kQuarter.bytes() + kKept.bytes());
  EXPECT_TRUE(pages_.is_consistent());
}

// The administrator may switch them off while services run. The kernel frees nothing of a huge page
// before it is split.
TEST_F(BrokenPagesTest, APageFromBeforeTheProcessLostItsHugePagesIsSplit) {
  const PageHeap::Place kept = nearly_empty_page();
  pages_.grant_huge_pages(false);
  system_.huge_until_split = true;
  const int small = system_.small_advice;
  EXPECT_EQ(break_pages(), kHugePageSize - kKept.bytes());
  EXPECT_EQ(system_.split_calls, 1);
  EXPECT_EQ(system_.small_advice, small + 1);
  const PageHeap::Place again = take(kHalf);
  ASSERT_EQ(again.page, kept.page);
  give(again, kHalf);
  EXPECT_EQ(break_later(), kHalf.bytes());
  EXPECT_EQ(system_.split_calls, 1) << "once";
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(SmallPagesTest, AsOftenAsThereIsSomething) {
  const PageHeap::Place kept = nearly_empty_page();
  EXPECT_EQ(break_pages(), kHalf.bytes());
  const PageHeap::Place quarter = take(kQuarter);
  ASSERT_EQ(quarter.page, kept.page);
  memset(quarter.start(), 7, kQuarter.bytes());
  give(quarter, kQuarter);
  system_.time = system_.time + Nanos::seconds(3);
  EXPECT_EQ(break_pages(), kQuarter.bytes());
}

TEST_F(SmallPagesTest, NothingIsMadeHuge) {
  for (int i = 0; i < 10; ++i) take(kHalf);
  const int advice = system_.huge_advice, small = system_.small_advice;
  pages_.collapse_first_pages();
  break_pages();
  EXPECT_EQ(system_.collapsed, 0u);
  EXPECT_EQ(system_.huge_advice, advice);
  EXPECT_EQ(system_.small_advice, small);
}

TEST_F(SmallPagesTest, OnceThereAreHugePagesFullOnesBecomeHuge) {
  for (int i = 0; i < 4; ++i) take(kHalf);
  pages_.grant_huge_pages(true);
  break_pages();
  EXPECT_EQ(system_.collapsed, 2 * kHugePageSize);
}

// A page that is being made huge again is emptied, and its address space given up; under
// -fsanitize=thread.
TEST(BrokenPages, SpaceIsGivenUpWhilePagesAreMended) {
  constexpr int kRounds = 1000;
  MetadataArena arena(system_pages);
  NoPageTables tables;
  auto sets = std::make_unique<PageSets>();
  PageHeap pages(system_pages, arena, tables, *sets);
  pages.count_splits(false);
  const auto take = [&](Blocks blocks) { return pages.take(PageGroup::session, blocks, 1); };
  const auto give = [&](const PageHeap::Place& place, Blocks blocks) {
    pages.give(place.page, place.start(), blocks);
  };
  std::atomic<bool> done{false};
  std::thread breaker([&] {
    while (!done.load()) pages.break_idle(Nanos::max());
  });
  for (int i = 0; i < kRounds; ++i) {
    const PageHeap::Place kept = take(kKept);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const PageHeap::Place half = take(kHalf);
    std::this_thread::yield();
    give(half, kHalf);
    give(kept, kKept);
    pages.give_up_space();
  }
  done = true;
  breaker.join();
  EXPECT_TRUE(pages.is_consistent());
}

}  // namespace
}  // namespace llamalloc
