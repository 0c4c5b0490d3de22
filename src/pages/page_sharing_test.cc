// SPDX-License-Identifier: Apache-2.0
// Which blocks may lie in pages of another group, or of another grain.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pages/test_page_heap.h"

namespace llamalloc {
namespace {

using PageSharingTest = OnPageHeap;

TEST_F(PageSharingTest, GroupsFillPagesOfLongerLivedOnesThatAreMostlyFree) {
  const Held session = take(PageGroup::session, 2);
  EXPECT_EQ(take(PageGroup::unknown, 2).page, session.page) << "it may stay or not";
  wait(2);
  EXPECT_EQ(take(PageGroup::transient, 2).page, session.page);
  const Held permanent = take(PageGroup::permanent, 2);
  EXPECT_NE(permanent.page, session.page) << "it would pin it";
  wait(2);
  EXPECT_EQ(take(PageGroup::brief, 2).page, permanent.page) << "of the longest-lived";
}

TEST_F(PageSharingTest, InASmallHeapTheyLeaveThoseThatAreBeingFilled) {
  const Held permanent = take(PageGroup::permanent, 2);
  const Held brief = take(PageGroup::brief, 2);
  EXPECT_NE(brief.page, permanent.page);
  give(brief);
  wait(2);
  EXPECT_EQ(take(PageGroup::brief, 2).page, permanent.page);
}

TEST_F(PageSharingTest, InASmallHeapTheyFillAnyPageOfUnknownObjects) {
  const Held unknown = take(PageGroup::unknown, 2);
  EXPECT_EQ(take(PageGroup::transient, 2).page, unknown.page);
}

// 20 pages of which one is half free: 2.5 % are holes.
TEST_F(PageSharingTest, GroupsHavePagesOfTheirOwnWhileFewBlocksAreFree) {
  std::vector<Held> halves;
  for (int i = 0; i < 39; ++i) halves.push_back(take(PageGroup::session, kHalf));
  ASSERT_EQ(pages_.in_use(), 20u);
  wait(2);
  const Held transient = take(PageGroup::transient, 2);
  EXPECT_EQ(transient.page->group, PageGroup::transient);
  for (int i = 0; i < 4; ++i) give(halves[2 * i + 1]);  // 13.5 %
  EXPECT_EQ(take(PageGroup::brief, 2).page->group, PageGroup::session)
      << "of the longest-lived that has room";
  EXPECT_EQ(take(PageGroup::transient, 2).page, transient.page) << "its own come first";
}

TEST_F(PageSharingTest, GroupsHavePagesOfTheirOwnInALargeHeapWhateverIsFree) {
  std::vector<Held> halves;
  for (size_t i = 0; i < 2 * (kSmallHeap - 1); ++i)
    halves.push_back(take(PageGroup::session, kHalf));
  for (size_t i = 0; i < halves.size(); i += 2) give(halves[i]);
  ASSERT_EQ(pages_.in_use(), kSmallHeap - 1);
  wait(2);
  EXPECT_TRUE(shares(PageGroup::brief));
  take(PageGroup::permanent, kHalf);
  ASSERT_EQ(pages_.in_use(), kSmallHeap);
  EXPECT_FALSE(shares(PageGroup::transient));
}

// 80 pages, half full, and one with a hole. 78 that were full of late and a 32nd are just less.
TEST_F(PageSharingTest, AHeapThatHasOutgrownItsUseSharesPages) {
  constexpr size_t kPages = 80, kOutgrown = 78 * kHugePageSize;
  give(hole_in_full_page(20, 40));
  std::vector<Held> halves;
  for (size_t i = 0; i < 2 * kPages; ++i) halves.push_back(take(PageGroup::session, kHalf));
  for (size_t i = 0; i < halves.size(); i += 2) give(halves[i]);
  ASSERT_EQ(pages_.in_use(), kPages + 1);
  wait(3);
  pages_.fill_unknown_pages(false);
  EXPECT_FALSE(shares(PageGroup::brief)) << "nothing is known of its use";
  pages_.note_most_used(kOutgrown + kHugePageSize);
  EXPECT_FALSE(shares(PageGroup::brief)) << "the groups will need it again";
  pages_.note_most_used(kOutgrown);
  EXPECT_TRUE(shares(PageGroup::brief));
  pages_.share_pages_below(0);
  EXPECT_FALSE(shares(PageGroup::brief)) << "told not to";
  pages_.share_pages_below(1);
  EXPECT_FALSE(shares(PageGroup::permanent)) << "it has pages of its own, as was said";
  take(PageGroup::unknown, 40);
  EXPECT_TRUE(shares(PageGroup::unknown));
  for (size_t i = 0; i < halves.size(); i += 2) take(PageGroup::session, kHalf);
  EXPECT_EQ(pages_.in_use(), kPages + 1);
  EXPECT_FALSE(shares(PageGroup::brief)) << "all is used now";
}

// Stored data and the buffers of those who send it come at the same time.
TEST_F(PageSharingTest, AGroupLeavesThePageThatALongerLivedOneFillsNowToThatOne) {
  const Held old = take(PageGroup::permanent, kAll - 2);
  wait(3);
  const Held growing = take(PageGroup::permanent, kAll - 64);
  pages_.take_over_pages(false);
  pages_.fill_unknown_pages(false);
  pages_.share_pages_below(1);
  pages_.note_most_used(1);
  EXPECT_EQ(take(PageGroup::session, 2).page, old.page);
  const Held own = take(PageGroup::session, 2);
  EXPECT_EQ(own.page->group, PageGroup::session);
  wait(3);
  EXPECT_EQ(take(PageGroup::brief, 4).page, growing.page) << "it is filled no more";
  const Held next = take(PageGroup::permanent, kHalf + 2);
  EXPECT_EQ(take(PageGroup::brief, kHalf - 2).page, own.page);
  const Held last = take(PageGroup::permanent, kHalf + 2);
  EXPECT_EQ(take(PageGroup::brief, kHalf - 2).page, next.page) << "another one is filled now";
  EXPECT_NE(take(PageGroup::brief, kHalf - 2).page, last.page);
  pages_.note_before_full(0);
  EXPECT_EQ(take(PageGroup::brief, kHalf - 2).page, last.page) << "a limit is near";
}

// Whatever was used of late: the worker may come too late.
TEST_F(PageSharingTest, AHeapNearALimitSharesPages) {
  constexpr size_t kPages = 80;
  give(hole_in_full_page(20, 40));
  std::vector<Held> halves;
  for (size_t i = 0; i < 2 * kPages; ++i) halves.push_back(take(PageGroup::session, kHalf));
  for (size_t i = 0; i < halves.size(); i += 2) give(halves[i]);
  pages_.note_most_used(SIZE_MAX / 2);
  pages_.note_before_full(10 * kHugePageSize);
  EXPECT_FALSE(shares(PageGroup::brief)) << "there is room";
  pages_.note_before_full(0);
  EXPECT_TRUE(shares(PageGroup::brief));
  pages_.note_before_full(kHugePageSize);
  EXPECT_FALSE(shares(PageGroup::brief)) << "for one page";
  for (int i = 0; i < 3; ++i) take(PageGroup::brief, kAll);
  EXPECT_TRUE(shares(PageGroup::brief)) << "nobody looked at the limit since";
  pages_.note_before_full(SIZE_MAX);
  EXPECT_FALSE(shares(PageGroup::brief)) << "there is no limit any more";
  pages_.note_before_full(0);
  pages_.share_pages_below(0);
  EXPECT_FALSE(shares(PageGroup::brief)) << "told not to";
}

// 40 pages of brief objects of which most are gone: two are nearly empty, the others too full.
TEST_F(PageSharingTest, InAHeapThatHasOutgrownItsUseALongerLivedGroupTakesOverTheRoomiestPage) {
  constexpr size_t kPages = 40;
  std::vector<Held> few, most;
  for (size_t i = 0; i < kPages; ++i) {
    const uint32_t kept = i == 20 ? 64 : i == 30 ? 8 : kHalf + 1;
    few.push_back(take(PageGroup::brief, kept));
    most.push_back(take(PageGroup::brief, kAll - kept));
    ASSERT_EQ(few.back().page, most.back().page);
  }
  for (const Held& one : most) give(one);
  ASSERT_EQ(pages_.in_use(), kPages);
  pages_.fill_unknown_pages(false);
  pages_.share_pages_below(1);
  const Held own = take(PageGroup::session, kHalf + 8);
  EXPECT_EQ(pages_.in_use(), kPages + 1) << "nothing is known of its use";
  pages_.note_most_used(1);
  const Held roomiest = take(PageGroup::session, kHalf);
  EXPECT_EQ(roomiest.page, few[30].page);
  EXPECT_EQ(roomiest.page->group, PageGroup::session);
  EXPECT_TRUE(roomiest.page->promoted) << "what is still in it is not of the group";
  EXPECT_EQ(take(PageGroup::permanent, kHalf).page, few[20].page);
  EXPECT_EQ(pages_.in_use(), kPages + 1);
  take(PageGroup::permanent, kHalf);
  EXPECT_EQ(pages_.in_use(), kPages + 2) << "the others are more than half full";
  EXPECT_EQ(few[0].page->group, PageGroup::brief);
  give(few[30]);
  give(roomiest);
  give(own);
  EXPECT_EQ(pages_.in_use(), kPages);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(PageSharingTest, WherePlacementIsProvenNoPageIsTakenOver) {
  std::vector<Held> few, most;
  for (int i = 0; i < 40; ++i) {
    few.push_back(take(PageGroup::brief, 8));
    most.push_back(take(PageGroup::brief, kAll - 8));
  }
  for (const Held& one : most) give(one);
  pages_.fill_unknown_pages(false);
  pages_.share_pages_below(1);
  pages_.note_most_used(1);
  pages_.take_over_pages(false);
  EXPECT_EQ(take(PageGroup::session, kHalf).page->promoted, false);
  EXPECT_EQ(pages_.in_use(), 41u);
  pages_.take_over_pages(true);
  EXPECT_TRUE(take(PageGroup::permanent, kHalf).page->promoted);
  EXPECT_EQ(pages_.in_use(), 41u);
}

TEST_F(PageSharingTest, APageThatHasNoRoomForTheRequestIsNotTakenOver) {
  const Held first = take(PageGroup::brief, 90), middle = take(PageGroup::brief, 76);
  give(first), give(take(PageGroup::brief, 90));
  pages_.fill_unknown_pages(false);
  pages_.share_pages_below(1);
  pages_.note_most_used(1);
  take(PageGroup::session, 91);
  EXPECT_EQ(pages_.in_use(), 2u);
  EXPECT_EQ(middle.page->group, PageGroup::brief);
  EXPECT_NE(take(PageGroup::permanent, 90).page->group, PageGroup::brief);
}

// Seven full pages and one that is partly so: the limit is half a page.
TEST_F(PageSharingTest, CountsHolesWhateverMakesThem) {
  for (int i = 0; i < 7; ++i) take(PageGroup::session, kAll);
  const Held growing = take(PageGroup::session, kAll / 4);
  wait(2);
  EXPECT_TRUE(shares(PageGroup::transient)) << "three quarters of the last page are free";
  ASSERT_TRUE(pages_.extend(growing.page, growing.start, {kAll / 4}, {kHalf}));
  EXPECT_FALSE(shares(PageGroup::transient)) << "no more than a half";
  pages_.give(growing.page, growing.start + kAll / 4 * kBlockSize, {kAll / 4});
  EXPECT_TRUE(shares(PageGroup::transient));
}

// Buffers and small objects alternate; when the buffers go, their pages are empty.
TEST_F(PageSharingTest, CoarseBlocksHavePagesOfTheirOwnInUnknown) {
  std::vector<Held> buffers;
  constexpr uint32_t kEach = 4 * kSharedPages;  // pages of either
  for (uint32_t i = 0; i < 4 * kEach; ++i) {
    take(PageGroup::unknown, kAll / 4);
    buffers.push_back(take(PageGroup::unknown, kAll / 4, 1, Grain::coarse));
  }
  for (const Held& held : buffers) give(held);
  EXPECT_LE(pages_.in_use(), kEach + kSharedPages / 2);
  EXPECT_TRUE(pages_.is_consistent());
}

// A tight lifetime says more than a size; that of `session` is not.
TEST_F(PageSharingTest, CoarseBlocksOfAnotherGroupShareItsPages) {
  for (const PageGroup group : {PageGroup::brief, PageGroup::permanent}) {
    for (uint32_t i = 0; i <= kSharedPages; ++i) take(group, kAll - 8);
    const size_t pages = pages_.in_use();
    take(group, 8, 1, Grain::coarse);
    EXPECT_EQ(pages_.in_use(), pages);
  }
}

TEST_F(PageSharingTest, CoarseBlocksOfSessionsLieApart) {
  pages_.share_pages_below(0);
  std::vector<Held> fine;
  for (uint32_t i = 0; i <= kSharedPages; ++i) fine.push_back(take(PageGroup::session, kHole + 1));
  const Held apart = take(PageGroup::session, kHole, 1, Grain::coarse);
  for (const Held& held : fine) EXPECT_NE(apart.page, held.page);
  EXPECT_EQ(take(PageGroup::session, 8, 1, Grain::coarse).page, apart.page);
  EXPECT_NE(take(PageGroup::session, 8).page, apart.page);
}

TEST(Grain, ABufferOf16KiBIsOne) {
  EXPECT_EQ(grain_of(size_t{14} << 10), Grain::fine);
  EXPECT_EQ(grain_of(size_t{16} << 10), Grain::coarse);
}

// In a small heap either fills what the other left.
TEST_F(PageSharingTest, CoarseBlocksLieAmongFewFineOnes) {
  std::vector<Held> buffers;
  for (uint32_t i = 0; i < kSharedPages; ++i) {
    take(PageGroup::unknown, kHalf);
    buffers.push_back(take(PageGroup::unknown, kHalf, 1, Grain::coarse));
  }
  for (const Held& held : buffers) give(held);
  for (uint32_t i = 0; i < kSharedPages; ++i) take(PageGroup::unknown, kHalf);
  EXPECT_EQ(pages_.in_use(), kSharedPages);
}

TEST_F(PageSharingTest, CoarseBlocksThatFillAPageDoNotCountAsFine) {
  for (uint32_t i = 0; i < kSharedPages; ++i) take(PageGroup::unknown, kAll, 1, Grain::coarse);
  const Held fine = take(PageGroup::unknown, kHalf);
  EXPECT_EQ(take(PageGroup::unknown, kHalf, 1, Grain::coarse).page, fine.page);
}

// A page with small holes stays anyway. One that is half free may become empty, had no buffer come.
TEST_F(PageSharingTest, CoarseBlocksFillSmallHolesOfManyFineOnes) {
  pages_.share_pages_below(0);
  constexpr uint32_t kEach = kHole / 2;
  std::vector<Held> fine;
  for (uint32_t i = 0; i < (kSharedPages + 1) * (kAll / kEach); ++i)
    fine.push_back(take(PageGroup::unknown, kEach));
  for (uint32_t i = 0; i < kAll / kEach / 2; ++i) give(fine[i]);
  const Held apart = take(PageGroup::unknown, kHole, 1, Grain::coarse);
  EXPECT_NE(apart.page, fine[0].page) << "half of that page is free";
  take(PageGroup::unknown, kAll - kHole, 1, Grain::coarse);
  for (uint32_t i = kAll / kEach; i < 2 * kAll / kEach; i += 2) give(fine[i]);
  EXPECT_EQ(take(PageGroup::unknown, kEach, 1, Grain::coarse).page, fine[kAll / kEach].page);
}

TEST_F(PageSharingTest, FineBlocksNeverFillHolesOfCoarseOnes) {
  pages_.share_pages_below(0);
  for (uint32_t i = 0; i < kSharedPages; ++i) take(PageGroup::unknown, kAll);
  const Held buffer = take(PageGroup::unknown, kHalf, 1, Grain::coarse);
  EXPECT_NE(take(PageGroup::unknown, 2).page, buffer.page);
  EXPECT_EQ(take(PageGroup::unknown, kHalf, 1, Grain::coarse).page, buffer.page);
}

// What stays may lie with what is not known; that pins nothing that would have become free.
TEST_F(PageSharingTest, PermanentBlocksFillUnknownPagesAtAnyTime) {
  pages_.share_pages_below(0);
  const Held unknown = take(PageGroup::unknown, 2);
  EXPECT_EQ(take(PageGroup::permanent, 2).page, unknown.page);
  EXPECT_NE(take(PageGroup::brief, 2).page, unknown.page);
}

// Placement by lifetime was given up: otherwise the holes that it left would stay free.
TEST_F(PageSharingTest, PagesOfAllGroupsJoinUnknown) {
  pages_.share_pages_below(0);
  const Held stays = take(PageGroup::transient, kHalf), left = take(PageGroup::session, kHalf);
  EXPECT_NE(take(PageGroup::unknown, kAll).page, left.page);
  EXPECT_FALSE(shares(PageGroup::unknown)) << "not yet";
  wait(7);
  ASSERT_EQ(pages_.promote_expired(system_.time), 1u);
  pages_.join_groups([](const HugePage&) { return false; });
  for (const Held& held : {stays, left}) {
    EXPECT_EQ(held.page->group, PageGroup::unknown);
    EXPECT_FALSE(held.page->promoted);
    EXPECT_NE(take(PageGroup::transient, kHalf).page, held.page);
  }
  EXPECT_EQ(take(PageGroup::unknown, kHalf).page, std::min(stays.page, left.page));
  EXPECT_TRUE(pages_.is_consistent());
}

// Placement rests until the load is higher: pages keep their groups.
TEST_F(PageSharingTest, UnknownBlocksFillWhatOtherGroupsLeft) {
  pages_.share_pages_below(0);
  const Held left = take(PageGroup::brief, kHalf);
  EXPECT_FALSE(shares(PageGroup::unknown)) << "not unless told so";
  pages_.fill_left_over(true);
  EXPECT_TRUE(shares(PageGroup::unknown));
  EXPECT_FALSE(shares(PageGroup::transient)) << "nobody else";
  EXPECT_EQ(take(PageGroup::unknown, kHalf, 1, Grain::coarse).page, left.page);
}

// Of both kinds, so fine blocks alone would not fill them.
TEST_F(PageSharingTest, BuffersFillAnyHoleThatPlacementLeft) {
  pages_.share_pages_below(0);
  const Held left = take(PageGroup::unknown, kHalf);
  for (uint32_t i = 0; i < kSharedPages; ++i) take(PageGroup::unknown, kAll);
  const Held apart = take(PageGroup::unknown, kHalf, 1, Grain::coarse);
  EXPECT_NE(apart.page, left.page);
  take(PageGroup::unknown, kHalf, 1, Grain::coarse);
  pages_.fill_left_over(true);
  EXPECT_EQ(take(PageGroup::unknown, kHalf, 1, Grain::coarse).page, left.page);
}

}  // namespace
}  // namespace llamalloc
