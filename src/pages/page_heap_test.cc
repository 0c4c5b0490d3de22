// SPDX-License-Identifier: Apache-2.0
#include "pages/page_heap.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "pages/test_page_heap.h"

namespace llamalloc {
namespace {

using PageHeapTest = OnPageHeap;

TEST_F(PageHeapTest, GivesTheLowestBlocksAlignedAndTakesThemBack) {
  const Held a = take(PageGroup::unknown, 2), b = take(PageGroup::unknown, 3);
  EXPECT_EQ(b.start, a.start + a.blocks.bytes());
  const Held c = take(PageGroup::unknown, 5, 8);
  EXPECT_EQ(c.start, c.page->base + 8 * kBlockSize);
  give(a);
  EXPECT_EQ(take(PageGroup::unknown, 2).start, a.start);
  EXPECT_EQ(pages_.in_use(), 1u);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(PageHeapTest, ExtendsWhereTheBlocksBehindAreFree) {
  const Held a = take(PageGroup::unknown, 2);
  EXPECT_TRUE(pages_.extend(a.page, a.start, {2}, {10}));
  const Held b = take(PageGroup::unknown, 2);
  EXPECT_EQ(b.start, a.start + 10 * kBlockSize);
  EXPECT_FALSE(pages_.extend(a.page, a.start, {10}, {11}));
  EXPECT_FALSE(pages_.extend(b.page, b.start, {2}, {kAll}));
  pages_.give(a.page, a.start, {10});
  give(b);
  EXPECT_EQ(pages_.in_use(), 0u);
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(PageHeapTest, WithoutMoreMemoryAnyRoomWillDo) {
  for (uint32_t i = 0; i <= kSharedPages; ++i) take(PageGroup::unknown, kAll);
  const Held first = take(PageGroup::unknown, kHalf, 1, Grain::coarse);
  take(PageGroup::unknown, kHalf, 1, Grain::coarse);
  give(first);
  pages_.share_pages_below(0);
  pages_.limit_growth(1);
  EXPECT_EQ(take(PageGroup::unknown, 2).page, nullptr);
  const PageHeap::Place place = pages_.take_anywhere({2}, 1);
  ASSERT_NE(place.page, nullptr);
  pages_.give(place.page, place.start(), {2});
  EXPECT_TRUE(pages_.is_consistent());
}

TEST_F(PageHeapTest, WithoutMoreMemoryAShortHoleInALowPageHidesNoLongerOne) {
  const Held low = hole_in_full_page(24, 20), high = hole_in_full_page(24, 23);
  ASSERT_LT(low.start, high.start);
  pages_.limit_growth(1);
  give(high);
  give(low);
  EXPECT_EQ(pages_.take_anywhere({24}, 1).page, nullptr);
  const PageHeap::Place place = pages_.take_anywhere({23}, 1);
  ASSERT_EQ(place.page, high.page);
  EXPECT_EQ(place.start(), high.start);
  EXPECT_EQ(pages_.take_anywhere({23}, 1).page, nullptr);
  EXPECT_TRUE(pages_.is_consistent());
}

// As objects of about one size leave them: a page whose holes are a block too short is no reason to
// open another.
TEST_F(PageHeapTest, AHoleThatIsJustLongEnoughIsFilled) {
  for (const uint32_t n : {9u, 17u, 23u, 64u, 88u, 95u, 127u, 128u}) {
    const Held low = hole_in_full_page(64, n - 1), high = hole_in_full_page(64, n);
    ASSERT_LT(low.start, high.start);
    give(low);
    give(high);
    const Held held = take(PageGroup::unknown, n);
    EXPECT_EQ(held.page, high.page) << n;
    EXPECT_EQ(held.start, high.start) << n;
    take(PageGroup::unknown, n - 1);
  }
}

// Runs of 7 blocks, of which only that of the higher page begins at a multiple of 8: in the bucket
// of 7 blocks and above those of 3 and 4.
TEST_F(PageHeapTest, WithoutMoreMemoryAHoleThatIsNotAlignedHidesNoOther) {
  const Held low = hole_in_full_page(17, 7), high = hole_in_full_page(16, 7);
  ASSERT_LT(low.start, high.start);
  pages_.limit_growth(1);
  give(high);
  give(low);
  for (const uint32_t n : {3u, 4u, 7u}) {
    const PageHeap::Place place = pages_.take_anywhere({n}, 8);
    ASSERT_EQ(place.page, high.page) << n;
    EXPECT_EQ(place.start(), high.start);
    EXPECT_EQ(pages_.take_anywhere({n}, 8).page, nullptr) << "it is taken";
    pages_.give(place.page, place.start(), {n});
  }
  EXPECT_TRUE(pages_.is_consistent());
}

// A page whose blocks outlive the deadline serves the next longer group from then on.
TEST_F(PageHeapTest, PagesPastTheirDeadlineArePromoted) {
  pages_.share_pages_below(0);
  const Held stays = take(PageGroup::transient, 2);
  wait(5);
  EXPECT_EQ(pages_.promote_expired(system_.time), 0u);
  wait(2);
  EXPECT_EQ(pages_.promote_expired(system_.time), 1u);
  EXPECT_EQ(stays.page->group, PageGroup::brief);
  EXPECT_TRUE(stays.page->promoted);
  const Held brief = take(PageGroup::brief, 2);
  EXPECT_EQ(brief.page, stays.page) << "a promoted page is filled before a new one is opened";
  give(brief);
  give(stays);
  EXPECT_EQ(pages_.counts().empty_backed, 1u);
  EXPECT_TRUE(pages_.is_consistent());
}

// However many there are, nobody waits for more than one of them.
TEST_F(PageHeapTest, ManyPagesArePromotedOneByOne) {
  constexpr size_t kPages = 200;
  pages_.share_pages_below(0);
  std::vector<Held> all;
  for (size_t i = 0; i < kPages; ++i) all.push_back(take(PageGroup::transient, kAll));
  wait(7);
  for (size_t i = 0; i < kPages; i += 2) pages_.touch(all[i].page);
#ifdef LLAMALLOC_CHECK_BUILD
  PageSet& from = sets_.of[static_cast<int>(PageGroup::transient)][0];
  const uint32_t before = from.lock().times_taken();
#endif
  EXPECT_EQ(pages_.promote_expired(system_.time), kPages / 2);
#ifdef LLAMALLOC_CHECK_BUILD
  EXPECT_EQ(from.lock().times_taken(), before + kPages / 2) << "and for no page that stays";
#endif
  for (size_t i = 0; i < kPages; ++i)
    EXPECT_EQ(all[i].page->group, i % 2 == 0 ? PageGroup::transient : PageGroup::brief);
  EXPECT_TRUE(pages_.is_consistent());
  EXPECT_EQ(pages_.promote_expired(system_.time), 0u);
}

// A broken page has room, of which the memory went back. It may be needed elsewhere since.
TEST_F(PageHeapTest, AHardLimitHoldsWhereABrokenPageGetsItsMemoryBack) {
  const Held stays = take(PageGroup::unknown, 2);
  const Held rest = take(PageGroup::unknown, kAll - 4);
  const Held last = take(PageGroup::unknown, 2);
  ASSERT_EQ(last.page, stays.page);
  give(rest);
  wait(5);
  ASSERT_GT(pages_.break_idle(system_.time), 0u);
  const size_t limit = kHugePageSize + 5 * kBlockSize;
  pages_.limit_growth(limit);
  const Held whole = take(PageGroup::unknown, kAll);
  ASSERT_NE(whole.page, nullptr);
  EXPECT_EQ(take(PageGroup::unknown, 100).page, nullptr);
  EXPECT_EQ(pages_.take_anywhere({100}, 1).page, nullptr);
  EXPECT_FALSE(pages_.extend(stays.page, stays.start, {2}, {10}));
  EXPECT_TRUE(pages_.extend(stays.page, stays.start, {2}, {3})) << "so much is left";
  EXPECT_LE(pages_.demand().level().backed, limit);
  give(last);
  EXPECT_EQ(pages_.take_anywhere({3}, 1).page, nullptr);
  const PageHeap::Place again = pages_.take_anywhere({2}, 1);
  ASSERT_NE(again.page, nullptr);
  EXPECT_EQ(again.start(), last.start) << "behind holes that have none, what was freed has memory";
  give(whole);
  EXPECT_NE(take(PageGroup::unknown, 100).page, nullptr);
  EXPECT_TRUE(pages_.is_consistent());
}

// Who allocates waits for no walk over all of them.
TEST_F(PageHeapTest, ManyPagesAreLookedAtOneByOneBeforeSomeAreBroken) {
  constexpr size_t kPages = 200;
  for (size_t i = 0; i < kPages; ++i) take(PageGroup::unknown, kAll);
#ifdef LLAMALLOC_CHECK_BUILD
  PageSet& set = sets_.of[static_cast<int>(PageGroup::unknown)][0];
  const uint32_t before = set.lock().times_taken();
#endif
  pages_.break_idle(system_.time);
#ifdef LLAMALLOC_CHECK_BUILD
  EXPECT_GE(set.lock().times_taken(), before + kPages);
#endif
}

TEST_F(PageHeapTest, APageThatIsTouchedIsNotPromoted) {
  const Held stays = take(PageGroup::transient, 2);
  for (int i = 0; i < 10; ++i) {
    pages_.touch(stays.page);
    wait(1);
    EXPECT_EQ(pages_.promote_expired(system_.time), 0u);
  }
  EXPECT_EQ(stays.page->group, PageGroup::transient);
}

TEST_F(PageHeapTest, TheFirstPagesAreSmallUntilTheHeapHasGrown) {
  constexpr int kFirst = 8, kMany = 24;
  const Held broken = take(PageGroup::unknown, kAll / 8);
  for (int i = 1; i < kFirst; ++i) take(PageGroup::unknown, kAll);
  wait(100);
  pages_.break_idle(system_.time);
  ASSERT_TRUE(broken.page->broken);
  take(PageGroup::unknown, kAll - kAll / 4);  // nothing smaller is to fill that
  const int small = system_.small_advice;     // those, and our own tables
  EXPECT_GE(small, kFirst);
  const int tables = small - kFirst;
  for (int i = kFirst; i < kMany; ++i) take(PageGroup::unknown, kAll);
  EXPECT_LE(system_.small_advice, small + tables) << "later pages are huge";
  const int later = system_.small_advice;
  pages_.collapse_first_pages();
  EXPECT_EQ(system_.collapsed, 0u);
  take(PageGroup::unknown, kAll);
  pages_.collapse_first_pages();
  pages_.collapse_first_pages();
  EXPECT_EQ(system_.collapsed, (kFirst - 1) * kHugePageSize) << "not the broken one";
  EXPECT_EQ(system_.small_advice, later);
}

TEST_F(PageHeapTest, EmptyPagesGoBackAfterAWhileAndReadAsZeroAgain) {
  const Held first = take(PageGroup::unknown, kAll);
  memset(first.start, 7, kHugePageSize);
  give(first);
  wait(1);
  EXPECT_EQ(pages_.release(system_.time - Nanos::seconds(2), 0), 0u) << "too young";
  EXPECT_EQ(pages_.release(system_.time, 1), 0u) << "one stays";
  EXPECT_TRUE(pages_.has_empty());
  EXPECT_EQ(pages_.release(system_.time, 0), 1u);
  EXPECT_FALSE(pages_.has_empty());
  const PageHeap::Place again = pages_.take(PageGroup::unknown, {kAll}, 1);
  EXPECT_EQ(again.page, first.page);
  EXPECT_TRUE(again.fresh);
  for (size_t i = 0; i < kHugePageSize; i += 4096) ASSERT_EQ(again.start()[i], 0);
}

// The system discards nothing of a page that is locked in memory. Sanitizers make mlock a no-op.
int change_lock(long call, void* start) {
  return static_cast<int>(syscall(call, start, 4096));
}

TEST_F(PageHeapTest, ALockedPageDoesNotKeepTheOthers) {
  std::vector<Held> held;
  for (int i = 0; i < 8; ++i) held.push_back(take(PageGroup::unknown, kAll));
  ASSERT_EQ(change_lock(SYS_mlock, held[0].start), 0);
  ASSERT_EQ(change_lock(SYS_mlock, held[3].start), 0);
  for (const Held& page : held) {
    give(page);
    wait(1);
  }
  EXPECT_EQ(pages_.release(system_.time - Nanos::millis(1), 0), 6u);
  EXPECT_TRUE(pages_.is_consistent());
  EXPECT_TRUE(pages_.may_release());
  wait(1);
  EXPECT_EQ(pages_.release(system_.time - Nanos::millis(1), 0), 0u);
  EXPECT_FALSE(pages_.may_release()) << "the worker would come ten times a second for them";
  change_lock(SYS_munlock, held[0].start);
  change_lock(SYS_munlock, held[3].start);
  wait(1);
  EXPECT_EQ(pages_.release(Nanos::max(), 0), 2u);
  EXPECT_FALSE(pages_.has_empty());
  give(take(PageGroup::unknown, kAll));
  EXPECT_TRUE(pages_.may_release());
}

TEST_F(PageHeapTest, WithoutMemoryItTakesNothingAndStaysWhole) {
  for (int allowed = 0; allowed < 8; ++allowed) {
    system_.calls_left = allowed;
    const Held held = take(PageGroup::unknown, kAll);
    system_.calls_left = INT64_MAX;
    EXPECT_TRUE(pages_.is_consistent()) << allowed;
    if (held.page != nullptr) give(held);
    pages_.release(Nanos::max(), 0);
    EXPECT_EQ(pages_.in_use(), 0u) << allowed;
  }
}

TEST_F(PageHeapTest, GivesBackWithoutALock) {
  struct Watch {
    PageHeap* pages;
    int calls, locked;
  } watch{&pages_, 0, 0};
  system_.on_release_argument = &watch;
  system_.on_release = [](void* argument) {
    auto& w = *static_cast<Watch*>(argument);
    ++w.calls;
    w.pages->for_each_lock([&](Lock& lock) { w.locked += lock.is_held(); });
  };
  std::vector<Held> all;
  for (int i = 0; i < 20; ++i) all.push_back(take(PageGroup::session, i % 2 == 0 ? 4 : kAll - 4));
  for (size_t i = 1; i < all.size(); i += 2) give(all[i]);
  wait(10);
  EXPECT_GT(pages_.break_idle(system_.time), kHugePageSize);
  for (size_t i = 0; i < all.size(); i += 2) give(all[i]);
  EXPECT_GT(pages_.release(Nanos::max(), 0), 5u);
  EXPECT_TRUE(pages_.give_up_space());
  EXPECT_GT(watch.calls, 20);
  EXPECT_EQ(watch.locked, 0);
}

// Two threads that ask at once are not both given what is left.
TEST_F(PageHeapTest, WhatIsPromisedIsNotForOthers) {
  pages_.limit_growth(3 * kHugePageSize);
  EXPECT_TRUE(pages_.could_take(3 * kHugePageSize));
  EXPECT_FALSE(pages_.could_take(3 * kHugePageSize + 1));
  EXPECT_TRUE(pages_.promise(2 * kHugePageSize));
  EXPECT_FALSE(pages_.promise(2 * kHugePageSize));
  const Held held = take(PageGroup::unknown, kAll);
  EXPECT_EQ(pages_.take(PageGroup::unknown, {kAll}, 1).page, nullptr) << "one was left";
  pages_.note_promised(2 * kHugePageSize);
  EXPECT_TRUE(pages_.promise(2 * kHugePageSize));
  pages_.keep_what_was_leaving();
  EXPECT_TRUE(pages_.promise(2 * kHugePageSize)) << "in a child nobody keeps a promise";
  give(held);
}

// A fork in each system call of a thread that gives pages back: in the child that thread is gone.
TEST_F(PageHeapTest, AChildKeepsWhatAnotherThreadGaveBack) {
  struct Forks {
    PageHeap& pages;
    std::vector<Held> all;
    int count = 0, lost = 0;

    bool has_all() const {
      pages.keep_what_was_leaving();
      bool good = pages.is_consistent();
      for (size_t i = 0; i < all.size(); ++i) {
        const HugePage* page = pages.take(PageGroup::unknown, {kAll}, 1).page;
        good &= page == all[0].page || page == all[1].page;
      }
      return good && pages.is_consistent();
    }
    void fork_now() {
      ++count;
      const pid_t child = fork();
      if (child == 0) _exit(has_all() ? 0 : 1);
      int status = 1;
      waitpid(child, &status, 0);
      lost += status != 0;
    }
  } forks{pages_, {}};
  for (int i = 0; i < 2; ++i) forks.all.push_back(take(PageGroup::unknown, kAll));
  for (const Held& held : forks.all) give(held);
  system_.on_release_argument = &forks;
  system_.on_release = [](void* argument) { static_cast<Forks*>(argument)->fork_now(); };
  EXPECT_EQ(pages_.release(Nanos::max(), 0), 2u);
  system_.on_release = nullptr;
  EXPECT_EQ(forks.count, 4);  // two pages, and what describes them
  EXPECT_EQ(forks.lost, 0);
  EXPECT_TRUE(pages_.is_consistent());
}

// A filter refuses it, or there are too many mappings to split one more.
TEST_F(PageHeapTest, SpaceThatCannotBeGivenUpIsStillUsed) {
  const Held first = take(PageGroup::unknown, kAll);
  const size_t reserved = pages_.counts().reserved_bytes;
  system_.refuse_unmap = true;
  EXPECT_FALSE(pages_.give_up_space());
  EXPECT_EQ(pages_.counts().reserved_bytes, reserved);
  const Held next = take(PageGroup::unknown, kAll);
  EXPECT_EQ(next.start, first.start + kHugePageSize);
  EXPECT_EQ(pages_.counts().reserved_bytes, reserved);
  EXPECT_TRUE(pages_.is_consistent());
}

#ifdef LLAMALLOC_CHECK_BUILD
// Pages that the walk looks at between two lockings, and locks that it holds then: counted, not
// timed.
TEST_F(PageHeapTest, AWalkHoldsOneLockForOnePage) {
  constexpr PageGroup kGroups[] = {PageGroup::session, PageGroup::permanent, PageGroup::unknown};
  for (int i = 0; i < 1000; ++i) take(kGroups[i % 3], kAll);
  uint64_t last = 0;
  int pages = 0, in_a_row = 0, longest = 0, most_held = 0;
  pages_.for_each_page([&](const HugePage&) {
    uint64_t takings = 0;
    int held = 0;
    pages_.for_each_lock([&](Lock& lock) {
      takings += lock.times_taken();
      held += lock.is_held();
    });
    in_a_row = takings == last ? in_a_row + 1 : 1;
    last = takings;
    longest = std::max(longest, in_a_row);
    most_held = std::max(most_held, held);
    ++pages;
  });
  EXPECT_EQ(pages, 1000);
  EXPECT_EQ(longest, 1) << "pages under one hold of a lock";
  EXPECT_EQ(most_held, 1);
}
#endif

TEST_F(PageHeapTest, AWalkLeavesOutPagesThatAreEmpty) {
  const Held kept = take(PageGroup::session, 4), gone = take(PageGroup::brief, 4);
  give(gone);
  int pages = 0;
  pages_.for_each_page([&](const HugePage& page) { pages += &page == kept.page ? 1 : 100; });
  EXPECT_EQ(pages, 1);
}

// A page that is promoted moves to another set.
TEST_F(PageHeapTest, AWalkMeetsEachPageOnceWhilePagesArePromoted) {
  constexpr size_t kPages = 100;
  std::atomic<bool> over{false};
  std::thread sweeper([&] {
    for (int i = 0; !over; ++i) {
      if (i % 8 == 0) pages_.join_groups([](const HugePage&) { return false; });
      pages_.promote_expired(Nanos::max());
    }
  });
  for (int round = 0; round < 200; ++round) {
    std::vector<Held> all;
    while (pages_.in_use() < kPages) all.push_back(take(PageGroup::transient, kHalf));
    for (int walk = 0; walk < 2; ++walk) {
      std::map<const HugePage*, int> met;
      pages_.for_each_page([&](const HugePage& page) { ++met[&page]; });
      const PoolCounts pool = pages_.counts();
      for (const auto& [page, times] : met) ASSERT_EQ(times, 1);
      EXPECT_EQ(met.size(), pages_.in_use());
      EXPECT_EQ(met.size() + pool.empty_backed, pool.acquired - pool.released);
    }
    for (const Held& held : all) give(held);
  }
  over = true;
  sweeper.join();
}

}  // namespace
}  // namespace llamalloc
