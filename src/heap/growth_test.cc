// SPDX-License-Identifier: Apache-2.0
// Before the heap grows beyond its recent peak, what is empty elsewhere goes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "heap/heap.h"
#include "heap/test_heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr size_t kTurn = size_t{90} << 20;
constexpr size_t kMapped = size_t{9} << 20;

class TurnsTest : public OnFakeMemory {
 protected:
  TurnsTest() {
    system_.on_release_argument = this;
    system_.on_release = [](void* argument) {
      auto* test = static_cast<TurnsTest*>(argument);
      test->heap_.for_each_lock([&](Lock& lock) { test->locked_ += lock.is_held(); });
    };
  }
  void note() { peak_ = std::max(peak_, heap_.backed_bytes()); }
  // 200 B objects, then 9 MiB ones: each turn is freed before the next.
  void small_turn() {
    std::vector<char*> slots;
    for (size_t bytes = 0; bytes < kTurn; bytes += 208)
      slots.push_back(one(PageGroup::unknown, 200)), note();
    for (char* slot : slots) heap_.give_one(slot);
  }
  void large_turn() {
    std::vector<Span*> spans;
    for (size_t bytes = 0; bytes < kTurn; bytes += kMapped)
      spans.push_back(heap_.allocate(kMapped, 1, PageGroup::unknown, false)), note();
    for (Span* span : spans) heap_.deallocate(span);
  }

  // A run that nobody uses any more, but that keeps its page from being empty.
  void shelve_run() {
    Shelf& shelf = heap_.next_shelf();
    while (shelf.room < kRunMax) shelf.earn(kRunMax);
    Span* run = heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
    heap_.hide(run);
    EXPECT_TRUE(heap_.shelve_run(shelf, run));
  }

  size_t peak_ = 0;
  int locked_ = 0;
};

TEST_F(TurnsTest, WhatOneKindFreedDoesNotAddToTheNext) {
  for (int turn = 0; turn < 3; ++turn) small_turn(), large_turn();
  EXPECT_LE(peak_, kTurn + kTurn / 20 + kMapped);
  EXPECT_EQ(locked_, 0) << "no lock is held while memory goes back";
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(TurnsTest, WhatAMappingLeftMakesRoomForPages) {
  Span* span = heap_.allocate(kTurn, 1, PageGroup::unknown, false);
  heap_.deallocate(span);
  ASSERT_EQ(heap_.direct().kept_bytes(), kTurn);
  ASSERT_NE(one(PageGroup::unknown, 200), nullptr);
  EXPECT_EQ(heap_.direct().kept_bytes(), 0u);
  EXPECT_LE(heap_.backed_bytes(), kTurn);
}

// One of 5 MiB, beside 90 MiB in use.
TEST_F(TurnsTest, WhatIsOwedForStaysWhereTheHeapGrows) {
  constexpr size_t kKept = size_t{5} << 20;
  system_.time = Nanos::seconds(1000);
  heap_.allocate(kTurn, 1, PageGroup::unknown, false);
  for (int i = 0; i < 100; ++i) {
    heap_.deallocate(heap_.allocate(kKept, 1, PageGroup::unknown, false));
    heap_.direct().release(Nanos::max());
  }
  const auto kept_after_growth = [this] {
    heap_.deallocate(heap_.allocate(kKept, 1, PageGroup::unknown, false));
    heap_.allocate(3 * kMapped, 1, PageGroup::unknown, false);
    one(PageGroup::unknown, 200);
    return heap_.direct().kept_bytes();
  };
  EXPECT_EQ(kept_after_growth(), kKept);
  system_.time = system_.time + FetchDebt::kPaidWithin;
  EXPECT_EQ(kept_after_growth(), 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(TurnsTest, WhatAMappingInUseDoesNotNeedIsThereToRelease) {
  system_.time = Nanos::seconds(1000);
  system_.most_moved = SIZE_MAX;
  for (int i = 0; i < 10; ++i) {
    heap_.deallocate(heap_.allocate(kMapped, 1, PageGroup::unknown, false));
    heap_.direct().release(Nanos::max());
  }
  ASSERT_FALSE(heap_.has_empty_pages());
  heap_.deallocate(heap_.allocate(4 * kRunMax, 1, PageGroup::unknown, false));
  heap_.allocate(2 * kRunMax, 1, PageGroup::unknown, false);
  ASSERT_EQ(heap_.direct().kept_bytes(), 0u);
  EXPECT_TRUE(heap_.has_empty_pages());
  heap_.direct().release(Nanos::max());
  EXPECT_FALSE(heap_.has_empty_pages());
}

TEST_F(TurnsTest, AMappingThatGrowsMakesTheHeapGrow) {
  small_turn();
  Span* span = heap_.allocate(kMapped, 1, PageGroup::unknown, false);
  const size_t empty = heap_.pages().counts().empty_backed;
  ASSERT_GT(empty * kHugePageSize, kTurn / 2);
  ASSERT_NE(heap_.resize(span, kTurn), nullptr);
  EXPECT_LE(heap_.backed_bytes(), kTurn + kTurn / 20 + kMapped);
  EXPECT_EQ(locked_, 0);
  const size_t left = heap_.pages().counts().empty_backed;
  ASSERT_NE(heap_.resize(span, kMapped), nullptr);
  EXPECT_EQ(heap_.pages().counts().empty_backed, left) << "one that shrinks does not";
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(TurnsTest, WhatIsShelvedDoesNotKeepPagesFromMakingRoom) {
  shelve_run();
  ASSERT_FALSE(heap_.pages().has_empty());
  heap_.allocate(kMapped, 1, PageGroup::unknown, false);
  EXPECT_LE(heap_.backed_bytes(), kMapped);
}

// One empty page is not enough; what only a shelf keeps from being empty goes back, too.
TEST_F(TurnsTest, WhatIsShelvedMakesRoomBesideEmptyPages) {
  Shelf& shelf = heap_.next_shelf();
  while (shelf.room < 8 * kRunMax) shelf.earn(8 * kRunMax);
  Span* runs[8];
  for (Span*& run : runs) run = heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  for (Span* run : {runs[0], runs[1]}) heap_.deallocate(run);
  for (Span* run : {runs[2], runs[4], runs[6]}) heap_.deallocate(run);
  for (Span* run : {runs[3], runs[5], runs[7]}) {
    heap_.hide(run);
    EXPECT_TRUE(heap_.shelve_run(shelf, run));
  }
  ASSERT_EQ(heap_.pages().counts().empty_backed, 1u);
  heap_.allocate(kMapped, 1, PageGroup::unknown, false);
  EXPECT_LE(heap_.backed_bytes(), kMapped);
}

// As does a limit.
TEST_F(TurnsTest, WhatIsShelvedMakesRoomWithinALimit) {
  constexpr size_t kLimit = size_t{12} << 20;
  heap_.pages().limit_growth(kLimit);
  for (const bool grows : {false, true}) {
    Span* grown = grows ? heap_.allocate(kRunMax + 1, 1, PageGroup::unknown, false) : nullptr;
    shelve_run();
    if (grows) {
      EXPECT_NE(heap_.resize(grown, kLimit - kRunMax), nullptr);
    } else {
      grown = heap_.allocate(kLimit - kRunMax, 1, PageGroup::unknown, false);
      ASSERT_NE(grown, nullptr);
    }
    heap_.deallocate(grown);
    heap_.release(Nanos::max(), 0);
    heap_.direct().release(Nanos::max());
  }
}

// Somebody who can make a program ask for it would make it slow.
TEST_F(TurnsTest, WhatCanNeverBeHadEmptiesNoShelf) {
  heap_.pages().limit_growth(size_t{12} << 20);
  Span* grown = heap_.allocate(kRunMax + 1, 1, PageGroup::unknown, false);
  shelve_run();
  EXPECT_EQ(heap_.resize(grown, size_t{40} << 20), nullptr);
  EXPECT_EQ(heap_.allocate(size_t{40} << 20, 1, PageGroup::unknown, false), nullptr);
  EXPECT_FALSE(heap_.pages().has_empty()) << "the run still lies on its shelf";
}

TEST_F(TurnsTest, BelowTheRecentPeakNothingGoesBackEarly) {
  Span* large = heap_.allocate(kTurn, 1, PageGroup::unknown, false);
  char* slots[3000];
  for (char*& slot : slots) slot = one(PageGroup::unknown, 4096);
  heap_.deallocate(large);
  heap_.direct().release(Nanos::max());
  for (char* slot : slots) heap_.give_one(slot);
  const size_t empty = heap_.pages().counts().empty_backed;
  ASSERT_GT(empty, 4u);
  large = heap_.allocate(kTurn / 2, 1, PageGroup::unknown, false);
  EXPECT_EQ(heap_.pages().counts().empty_backed, empty);
  heap_.begin_epoch();
  heap_.begin_epoch();
  heap_.allocate(kMapped, 1, PageGroup::unknown, false);
  EXPECT_LT(heap_.pages().counts().empty_backed, empty) << "the peak is long past";
}

TEST_F(TurnsTest, RoomIsSomePagesOrManyBlocks) {
  constexpr size_t kRun = 64 * kBlockSize;  // four fill a page
  Span* runs[80];
  for (Span*& run : runs) run = heap_.allocate(kRun, 1, PageGroup::unknown, false);
  const Heap::Filling before = heap_.filling();
  ASSERT_EQ(before.pages, 20u);
  for (int i = 0; i < 60; i += 4) heap_.deallocate(runs[i]);
  EXPECT_FALSE(heap_.has_made_room(before));
  heap_.deallocate(runs[60]);
  EXPECT_TRUE(heap_.has_made_room(before)) << "8 MiB";
  const Heap::Filling after = heap_.filling();
  EXPECT_FALSE(heap_.has_made_room(after));
  for (int i = 1; i < 16; ++i)
    if (i % 4 != 0) heap_.deallocate(runs[i]);
  EXPECT_TRUE(heap_.has_made_room(after)) << "four pages, of which a quarter was free";
}

TEST_F(TurnsTest, WhatIsRetainedStays) {
  char* slots[3000];
  for (char*& slot : slots) slot = one(PageGroup::unknown, 4096);
  for (char* slot : slots) heap_.give_one(slot);
  heap_.release({}, 3);
  heap_.allocate(kTurn, 1, PageGroup::unknown, false);
  EXPECT_EQ(heap_.pages().counts().empty_backed, 3u);
}

}  // namespace
}  // namespace llamalloc
