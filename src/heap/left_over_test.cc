// SPDX-License-Identifier: Apache-2.0
// What placement by lifetime left free in other groups: while objects are placed, and once it is
// given up.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "heap/test_heap.h"
#include "heap/test_thread.h"

namespace llamalloc {
namespace {

using LeftOverTest = OnFakeMemory;

TEST_F(LeftOverTest, SlotsThatOtherGroupsLeftAreTakenBeforeASpanIsOpened) {
  constexpr int kClass = 3;
  const int left = bin_of(PageGroup::transient, kClass, false);
  std::vector<void*> placed;
  for (int i = 0; i < 1000; ++i) placed.push_back(heap_.take_one(left));
  for (size_t i = 0; i < placed.size(); i += 2) heap_.give_one(placed[i]);
  std::sort(placed.begin(), placed.end());
  const auto was_placed = [&](void* p) {
    return std::binary_search(placed.begin(), placed.end(), p);
  };
  const size_t spans = tables_->bins[left].spans;
  heap_.join_spans();
  TestThread thread(heap_, arena_);
  std::vector<char*> objects;
  for (int i = 0; i < 500; ++i) {
    objects.push_back(thread.allocate(kClass));
    ASSERT_TRUE(was_placed(objects.back())) << i;
  }
  EXPECT_EQ(tables_->bins[kClass].spans, spans);
  EXPECT_FALSE(was_placed(thread.allocate(kClass))) << "no more are left";
  EXPECT_EQ(thread.flush(), nullptr);
  EXPECT_EQ(tables_->bins[kClass].taken, 1001u);
  EXPECT_TRUE(heap_.is_consistent());
}

// A full span is in no list: it joins when something of it was freed.
TEST_F(LeftOverTest, FullSpansJoinLater) {
  const int bin = bin_of(PageGroup::brief, 3, false);
  std::vector<void*> placed(shape_of_bin(bin).slots);
  for (void*& slot : placed) slot = heap_.take_one(bin);
  EXPECT_TRUE(heap_.join_spans());
  EXPECT_EQ(heap_.give_one(placed[0]), nullptr);
  EXPECT_FALSE(heap_.join_spans());
  EXPECT_EQ(heap_.take_one(3), placed[0]);
  EXPECT_EQ(heap_.find(placed[0])->local_bin(), 3);
  SpanTag tag;
  EXPECT_TRUE(tables_->map.find_tag(placed[0], &tag) && tables_->map.starts_slot(placed[0], tag));
  EXPECT_EQ(tag.bin_offset(), SpanTag(nullptr, 3).bin_offset());
}

// At high load nearly all spans are full when placement is given up, and much is freed in a second.
TEST_F(LeftOverTest, WhatIsFreedInThemLaterIsTakenBeforeASpanIsOpened) {
  const int bin = bin_of(PageGroup::brief, 3, false);
  std::vector<void*> placed(4 * size_t{shape_of_bin(bin).slots});
  for (void*& slot : placed) slot = heap_.take_one(bin);
  EXPECT_TRUE(heap_.join_spans());
  for (size_t i = 0; i < placed.size(); i += 2) {
    EXPECT_EQ(heap_.give_one(placed[i]), nullptr);
    heap_.take_one(3);
  }
  EXPECT_LE(tables_->bins[3].spans + tables_->bins[bin].spans, 5u) << "6, had it opened any";
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(LeftOverTest, NotWhereObjectsArePlacedAgain) {
  const int bin = bin_of(PageGroup::brief, 3, false);
  std::vector<void*> placed(shape_of_bin(bin).slots);
  for (void*& slot : placed) slot = heap_.take_one(bin);
  EXPECT_TRUE(heap_.join_spans());
  heap_.keep_spans();
  EXPECT_EQ(heap_.give_one(placed[0]), nullptr);
  EXPECT_NE(heap_.take_one(3), placed[0]);
  EXPECT_EQ(heap_.take_one(bin), placed[0]);
}

// What a thread has in hand when its span joins another bin, and what lies in a depot.
TEST_F(LeftOverTest, WhatWasTakenOfTheOldBinIsGivenBack) {
  const int bin = bin_of(PageGroup::brief, 3, false);
  TestThread thread(heap_, arena_, 2);
  std::vector<char*> objects;
  for (int i = 0; i < 400; ++i) objects.push_back(thread.allocate(bin));
  void* slots[] = {objects[0], objects[1]};
  EXPECT_EQ(heap_.deposit(bin, slots, 2), nullptr);
  heap_.join_spans();
  for (size_t i = 2; i < objects.size(); ++i) EXPECT_EQ(thread.deallocate(objects[i]), nullptr);
  EXPECT_EQ(heap_.give(bin, slots, 0), nullptr);
  EXPECT_EQ(thread.flush(), nullptr);
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  heap_.join_spans();
  EXPECT_EQ(heap_.live_bytes(), 0u);
  for (int g = 0; g < kPageGroups; ++g) {
    EXPECT_EQ(heap_.quick_count(static_cast<PageGroup>(g)).allocated, 0u);
    EXPECT_EQ(heap_.count(static_cast<PageGroup>(g)).pages, 0u);
  }
  EXPECT_TRUE(heap_.is_consistent());
}

// Or a few fine objects among many coarse ones would pin all those pages, time and again.
TEST_F(LeftOverTest, SpansAmongManyCoarseBlocksAreNotFilledAnyMore) {
  const int fine = bin_of(PageGroup::transient, size_class_of(64), false);
  const int coarse = bin_of(PageGroup::transient, size_class_of(64 << 10), false);
  void* const among = heap_.take_one(fine);
  void* const arena = heap_.take_one(coarse);
  ASSERT_EQ(page_of(among), page_of(arena));
  heap_.join_pages();
  EXPECT_TRUE(heap_.join_spans());
  EXPECT_NE(page_of(one(PageGroup::unknown, 64)), page_of(among));
  EXPECT_EQ(heap_.give_one(arena), nullptr);
  EXPECT_EQ(heap_.give_one(among), nullptr);
  EXPECT_FALSE(heap_.join_spans());
  EXPECT_TRUE(heap_.is_consistent());
}

// Each is looked at once, however many there are.
TEST_F(LeftOverTest, ManySpansThatStayAreThereAfterwards) {
  constexpr int kSpans = 300;
  const int fine = bin_of(PageGroup::transient, size_class_of(3000), false);
  const int coarse = bin_of(PageGroup::transient, size_class_of(64 << 10), false);
  const auto each = static_cast<size_t>(shape_of_bin(fine).slots);
  std::vector<void*> slots(kSpans * each);
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i] = heap_.take_one(fine);
    if (i % (2 * each) == 0) heap_.take_one(coarse);
  }
  for (size_t i = 0; i < slots.size(); i += each) EXPECT_EQ(heap_.give_one(slots[i]), nullptr);
  heap_.join_pages();
  EXPECT_TRUE(heap_.join_spans());
  const Bin& bin = tables_->bins[fine];
  EXPECT_EQ(bin.spans, size_t{kSpans});
  EXPECT_TRUE(heap_.is_consistent());
  std::vector<void*> again(kSpans);
  for (void*& slot : again) slot = heap_.take_one(fine);
  for (size_t i = 0; i < again.size(); ++i)
    EXPECT_EQ(std::count(again.begin(), again.end(), slots[i * each]), 1) << i;
  EXPECT_EQ(bin.spans, size_t{kSpans});
  EXPECT_TRUE(heap_.is_consistent());
}

// ----- In a heap that has outgrown its load -----

class OutgrownTest : public LeftOverTest {
 protected:
  // Some 40 MiB, of which 2 are live.
  OutgrownTest() {
    heap_.pages().share_pages_below(0);
    for (int i = 0; i < 640; ++i) large_.push_back(take_large());
    for (size_t i = 0; i < large_.size(); ++i)
      if (i % 20 != 0) heap_.give_one(large_[i]);
    heap_.release(Nanos::max(), 0);
  }
  void* take_large() {
    return heap_.take_one(bin_of(PageGroup::transient, size_class_of(64 << 10), false));
  }
  // Of each other slot of so many the group has free.
  std::vector<void*> leave(PageGroup group, int n) {
    std::vector<void*> slots;
    for (int i = 0; i < n; ++i) slots.push_back(heap_.take_one(bin_of(group, kClass, false)));
    std::vector<void*> left;
    for (size_t i = 0; i < slots.size(); i += 2) {
      left.push_back(slots[i]);
      EXPECT_EQ(heap_.give_one(slots[i]), nullptr);
    }
    std::sort(left.begin(), left.end());
    return left;
  }
  void* take(PageGroup group) { return heap_.take_one(bin_of(group, kClass, false)); }
  bool takes(PageGroup group, const std::vector<void*>& left) {
    return std::binary_search(left.begin(), left.end(), take(group));
  }
  // What is held, less the page of each group that is partly used.
  size_t compared() { return heap_.held_bytes() - (kPageGroups - 1) * kHugePageSize; }
  static constexpr int kClass = 3;
  std::vector<void*> large_;
};

TEST_F(OutgrownTest, WhatOneGroupLeftServesAnother) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  const size_t pages = heap_.pages().in_use();
  heap_.note_most_live(1000);
  for (size_t i = 0; i < left.size(); ++i) ASSERT_TRUE(takes(PageGroup::permanent, left)) << i;
  EXPECT_EQ(heap_.pages().in_use(), pages);
  EXPECT_FALSE(takes(PageGroup::permanent, left)) << "no more are left";
  EXPECT_EQ(heap_.quick_count(PageGroup::transient).free_slots, 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(OutgrownTest, ALoadThatNeededTheMemoryKeepsGroupsApart) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  heap_.note_most_live(size_t{40} << 20);
  EXPECT_FALSE(takes(PageGroup::permanent, left));
}

TEST_F(OutgrownTest, ALoadThatNeedsTheMemoryKeepsGroupsApart) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  for (int i = 0; i < 500; ++i) ASSERT_NE(take_large(), nullptr);
  heap_.note_most_live(1);
  EXPECT_FALSE(takes(PageGroup::permanent, left));
}

TEST_F(OutgrownTest, NearALimitWhatOneGroupLeftServesAnotherAllTheSame) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  heap_.note_most_live(size_t{40} << 20);
  heap_.pages().note_before_full(0);
  EXPECT_TRUE(takes(PageGroup::permanent, left));
}

TEST_F(OutgrownTest, AHeapAThirtySecondTooLargeKeepsGroupsApart) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  heap_.note_most_live(compared() * 32 / 33 + 1);
  EXPECT_FALSE(takes(PageGroup::permanent, left));
}

TEST_F(OutgrownTest, ALargerOneDoesNot) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  heap_.note_most_live(compared() * 31 / 32);
  EXPECT_TRUE(takes(PageGroup::permanent, left));
}

TEST_F(OutgrownTest, WhereNothingIsPlacedByLifetimeGroupsStayApart) {
  const std::vector<void*> left = leave(PageGroup::transient, 1000);
  heap_.note_most_live(0);
  EXPECT_FALSE(takes(PageGroup::permanent, left));
}

TEST_F(OutgrownTest, TheLongestLivedHelpFirstAndShortLivedOnesLast) {
  const std::vector<void*> brief = leave(PageGroup::brief, 2),
                           unknown = leave(PageGroup::unknown, 2),
                           lasting = leave(PageGroup::permanent, 2);
  heap_.note_most_live(1);
  for (const auto* left : {&lasting, &unknown, &brief}) {
    const size_t rest = shape_of_bin(kClass).slots - 1;
    for (size_t i = 0; i < rest; ++i) {
      void* slot = heap_.take_one(bin_of(PageGroup::session, kClass, false));
      ASSERT_EQ(page_of(slot), page_of((*left)[0])) << i;
    }
  }
}

// Free blocks of the own group are for sizes that others lack, and come before what shorter-lived
// groups have: what stays there pins what would go.
TEST_F(OutgrownTest, WhatOthersHaveComesBeforeFreeBlocksOfTheOwnGroup) {
  const std::vector<void*> brief = leave(PageGroup::brief, 2),
                           lasting = leave(PageGroup::permanent, 2);
  const int of_other_size = bin_of(PageGroup::session, kClass + 2, false);
  const HugePage* const own = page_of(heap_.take_one(of_other_size));
  heap_.note_most_live(1);
  for (size_t i = 1; i < shape_of_bin(kClass).slots; ++i)
    ASSERT_TRUE(page_of(take(PageGroup::session)) == page_of(lasting[0])) << i;
  for (size_t i = 0; i < shape_of_bin(kClass).slots; ++i)
    ASSERT_EQ(page_of(take(PageGroup::session)), own) << i;
  EXPECT_NE(own, page_of(brief[0]));
}

// A thread may have slots of the span in hand, as those of the group that it was taken for.
TEST_F(OutgrownTest, WhatWasTakenOfTheOldGroupIsGivenBack) {
  const int old = bin_of(PageGroup::transient, kClass, false);
  const size_t live = heap_.live_bytes();
  void* slots[4];
  for (void*& slot : slots) slot = heap_.take_one(old);
  heap_.note_most_live(1);
  void* const other = heap_.take_one(bin_of(PageGroup::permanent, kClass, false));
  ASSERT_EQ(heap_.find(other), heap_.find(slots[0]));
  EXPECT_EQ(heap_.give(old, slots, 4), nullptr);
  EXPECT_EQ(heap_.give(old, slots, 1), slots[0]) << "twice";
  EXPECT_EQ(heap_.give_one(other), nullptr);
  EXPECT_EQ(heap_.live_bytes(), live);
  EXPECT_TRUE(heap_.is_consistent());
}

// Where the system has no memory.
TEST_F(LeftOverTest, TheLastSlotsAreThoseOfOtherGroups) {
  const int left = bin_of(PageGroup::transient, 3, false);
  char* const placed = static_cast<char*>(heap_.take_one(left));
  system_.most_mapped = 0;
  int taken = 0;
  while (void* slot = heap_.take_one(3)) {
    const auto apart = static_cast<char*>(slot) - placed;
    taken += apart > 0 && apart < 16 << 10;
  }
  EXPECT_EQ(taken, shape_of_bin(left).slots - 1);
}

// Threads place by lifetime or not, as they find it, and free what others allocated, while the
// worker switches between both, drains the depots and gives pages back.
TEST_F(LeftOverTest, PlacementThatIsSwitchedUnderLoadLosesAndDoublesNothing) {
  constexpr int kThreads = 3, kSteps = 60'000;
  constexpr size_t kHandedOver = 64;
  std::atomic<bool> places = false;
  std::atomic<int> running = kThreads, faults = 0;
  std::atomic<char*> handed_over[kHandedOver] = {};
  const auto stamp = [](char* p) { return reinterpret_cast<uintptr_t>(p) * 31; };
  const auto work = [&](unsigned seed) {
    TestThread thread(heap_, arena_, kThreads);
    std::mt19937 random(seed);
    const auto release = [&](char* p) {
      faults += *reinterpret_cast<uintptr_t*>(p) != stamp(p) || thread.deallocate(p) != nullptr;
    };
    for (int step = 0; step < kSteps; ++step) {
      const int group = places ? static_cast<int>(random() % kPageGroups) : 0;
      const int size_class = static_cast<int>(random() % 12) * 3;
      char* p = thread.allocate(group * kSizeClasses + size_class);
      if (p == nullptr && ++faults) break;
      *reinterpret_cast<uintptr_t*>(p) = stamp(p);
      char* const other = handed_over[random() % kHandedOver].exchange(p);
      if (other != nullptr) release(other);
      if (step % 5000 == 0) thread.flush();
    }
    faults += thread.flush() != nullptr;
    --running;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (bool on = true; running != 0; on = !on) {
    heap_.pages().fill_unknown_pages(!on);
    heap_.pages().fill_left_over(!on);
    heap_.note_most_live(on ? 1 : 0);
    places = on;
    if (!on) heap_.join_pages();
    if (!on) heap_.join_spans();
    faults += heap_.drain_depots() != nullptr;
    heap_.release(Nanos::max(), 0);
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<char*>& p : handed_over) {
    if (p != nullptr) {
      EXPECT_EQ(heap_.give_one(p), nullptr);
    }
  }
  EXPECT_EQ(faults, 0);
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  EXPECT_TRUE(heap_.is_consistent());
  EXPECT_EQ(heap_.live_bytes(), 0u);
}

}  // namespace
}  // namespace llamalloc
