// SPDX-License-Identifier: Apache-2.0
// Runs: how they grow, what parks, and what fills a huge page.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "heap/heap.h"
#include "heap/test_heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

class RunsTest : public OnFakeMemory {};

TEST_F(RunsTest, RunsAreNotFreshWhenTheirBlocksWereUsed) {
  Span* first = heap_.allocate(300000, 1, PageGroup::unknown, false);
  Span* keeps_page = heap_.allocate(300000, 1, PageGroup::unknown, false);
  const char* base = first->base;
  EXPECT_TRUE(first->fresh);
  heap_.deallocate(first);
  Span* second = heap_.allocate(300000, 1, PageGroup::unknown, false);
  EXPECT_EQ(second->base, base);
  EXPECT_FALSE(second->fresh);
  heap_.deallocate(second);
  heap_.deallocate(keeps_page);
}

TEST_F(RunsTest, RunsGrowAndShrinkInPlace) {
  Span* run = heap_.allocate(35 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(heap_.resize(run, 50 * kBlockSize), run->base);
  EXPECT_EQ(run->bytes, 50 * kBlockSize);
  Span* behind = heap_.allocate(35 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(behind->base, run->base + 50 * kBlockSize);
  EXPECT_EQ(heap_.resize(run, 51 * kBlockSize), nullptr);
  EXPECT_EQ(heap_.resize(run, 36 * kBlockSize), run->base);
  Span* hole = heap_.allocate(14 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(hole->base, run->base + 36 * kBlockSize);
  EXPECT_TRUE(heap_.is_consistent());
}

class WholePageTest : public RunsTest {
 protected:
  void leave_an_empty_page() {
    Span* run = heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
    heap_.deallocate(run);
    heap_.release(Nanos{}, 0);
    ASSERT_EQ(heap_.pages().counts().empty_backed, 1u);
  }
  Span* whole(size_t bytes = kHugePageSize, size_t alignment = 1) {
    return heap_.allocate(bytes, alignment, PageGroup::unknown, false);
  }
};

// What the program does not touch of it costs nothing.
TEST_F(WholePageTest, NoPageIsTakenFromTheSystemForOneObject) {
  EXPECT_EQ(whole()->kind, SpanKind::direct);
  EXPECT_EQ(heap_.pages().counts().acquired, 0u);
}

// The memory of a freed mapping could serve mappings of its size only.
TEST_F(WholePageTest, AnEmptyPageServesAndIsThereForAllSizesAfterwards) {
  leave_an_empty_page();
  Span* span = whole();
  ASSERT_EQ(span->kind, SpanKind::run);
  char* const base = span->base;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % kHugePageSize, 0u);
  heap_.deallocate(span);
  EXPECT_EQ(heap_.pages().counts().empty_backed, 1u) << "it is not parked";
  EXPECT_EQ(page_of(one(PageGroup::brief, 1000))->base, base);
  EXPECT_EQ(heap_.pages().counts().acquired, 1u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(WholePageTest, OnlyForWhatFillsIt) {
  for (const size_t other : {kHugePageSize - kSmallPage, kHugePageSize + 1}) {
    leave_an_empty_page();
    EXPECT_EQ(whole(other)->kind, SpanKind::direct);
  }
  leave_an_empty_page();
  EXPECT_EQ(whole(kHugePageSize, 2 * kHugePageSize)->kind, SpanKind::direct);
  leave_an_empty_page();
  EXPECT_EQ(whole(kHugePageSize - 1, kHugePageSize)->kind, SpanKind::run);
}

TEST_F(WholePageTest, TheObjectShrinksInPlace) {
  leave_an_empty_page();
  Span* span = whole();
  EXPECT_EQ(heap_.resize(span, kHugePageSize - 1), span->base);
  EXPECT_EQ(heap_.resize(span, kHugePageSize + 1), nullptr);
  EXPECT_EQ(heap_.resize(span, kRunMax + 1), span->base);
  EXPECT_EQ(span->bytes, kRunMax + kBlockSize);
  Span* behind = heap_.allocate(kRunMax - kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(behind->base, span->base + span->bytes);
  EXPECT_EQ(heap_.resize(span, kHugePageSize), nullptr);
  heap_.deallocate(behind);
  EXPECT_EQ(heap_.resize(span, kHugePageSize), nullptr) << "a mapping can grow further";
  heap_.deallocate(span);
  heap_.release({}, 0);
  EXPECT_EQ(heap_.pages().in_use(), 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

// The system moves it without a copy when it grows further.
TEST_F(RunsTest, WhatReallocGrowsToAHugePageGetsAMapping) {
  EXPECT_TRUE(may_grow_again(kRunMax, kHugePageSize));
  EXPECT_FALSE(may_grow_again(kHugePageSize, kHugePageSize));
  EXPECT_FALSE(may_grow_again(kHugePageSize, kHugePageSize + 1)) << "it is a mapping anyway";
  Span* growing = heap_.allocate_growing(kHugePageSize, PageGroup::unknown);
  ASSERT_EQ(growing->kind, SpanKind::direct);
  EXPECT_NE(heap_.resize(growing, 2 * kHugePageSize), nullptr);
}

// Buffers that grow in turn do not push each other away at every step.
TEST_F(RunsTest, GrowingRunsFindRoomBehindThem) {
  Span* runs[4];
  for (Span*& run : runs) run = heap_.allocate_growing(40'000, PageGroup::unknown);
  for (size_t bytes = 40'000; bytes <= 16 * kBlockSize; bytes += 8'000)
    for (Span* run : runs) {
      ASSERT_EQ(heap_.resize(run, bytes), run->base) << bytes;
    }
  EXPECT_EQ(runs[3]->bytes, 16 * kBlockSize);
  EXPECT_EQ(heap_.resize(runs[0], 16 * kBlockSize + 1), nullptr);
  EXPECT_EQ(heap_.resize(runs[0], kLeastGrowing), nullptr) << "a slot holds that better";
  EXPECT_EQ(heap_.resize(runs[0], kLeastGrowing + 1), runs[0]->base);
  EXPECT_EQ(runs[0]->bytes, kLeastRun);
  EXPECT_TRUE(heap_.is_consistent());
  for (Span* run : runs) heap_.deallocate(run);
  EXPECT_EQ(heap_.count(PageGroup::unknown).pages, 0u) << "what was resized is not parked";
}

TEST_F(RunsTest, TheLeastRunLeavesTheRoomBehindItToOthers) {
  heap_.allocate(kRunMax, 1, PageGroup::unknown, false);  // opens the page
  Span* run = heap_.allocate_growing(kLeastGrowing + 1, PageGroup::unknown);
  EXPECT_EQ(run->bytes, kLeastRun);
  EXPECT_EQ(heap_.count(PageGroup::unknown).free_blocks, kHugePageSize - kRunMax - kLeastRun);
  EXPECT_EQ(heap_.resize(run, kLeastRun + 1), run->base);
}

TEST_F(RunsTest, NoPageIsOpenedForTheRoomToGrow) {
  for (int i = 0; i < 16; ++i) {
    Span* run = heap_.allocate_growing(120'000, PageGroup::unknown);
    ASSERT_EQ(heap_.pages().in_use(), 1u) << i;
    ASSERT_NE(run, nullptr);
  }
  EXPECT_EQ(heap_.count(PageGroup::unknown).free_blocks, kHugePageSize - 16 * 15 * kBlockSize);
}

// Thousands of buffers that grow would leave half of each hole to nobody.
TEST_F(RunsTest, AmongManyHolesGrowingRunsLieSideBySide) {
  constexpr size_t kHole = 32 * kBlockSize, kGrowing = 8 * kBlockSize;
  std::vector<Span*> runs;
  while (heap_.held_bytes() < 3 * Heap::kFewHoles)
    runs.push_back(heap_.allocate(kHole, 1, PageGroup::unknown, false));
  const auto gap = [&] {
    const Span* first = heap_.allocate_growing(kGrowing, PageGroup::unknown);
    return heap_.allocate_growing(kGrowing, PageGroup::unknown)->base - first->base;
  };
  heap_.deallocate(runs[0]);
  heap_.release({}, 0);
  EXPECT_EQ(gap(), 2 * kGrowing);
  for (size_t i = 2; i < runs.size(); i += 2) heap_.deallocate(runs[i]);
  heap_.release({}, 0);
  gap();  // fills what is left of the first hole
  EXPECT_EQ(gap(), kGrowing);
}

TEST_F(RunsTest, AFreedRunServesTheNextOfItsLengthUntilTheWorkerComes) {
  Span* run = heap_.allocate(300'000, 1, PageGroup::brief, false);
  char* const base = run->base;
  heap_.deallocate(run);
  EXPECT_EQ(heap_.find(base), nullptr) << "a second free is found";
  EXPECT_TRUE(heap_.has_empty_pages()) << "something for the worker";
  EXPECT_EQ(heap_.count(PageGroup::brief).allocated, 0u);
  EXPECT_EQ(heap_.count(PageGroup::brief).free_blocks, kHugePageSize);
  Span* other = heap_.allocate(310'000, 1, PageGroup::brief, false);
  EXPECT_NE(other->base, base) << "another length";
  run = heap_.allocate(300'000, 1, PageGroup::brief, true);
  EXPECT_EQ(run->base, base);
  EXPECT_EQ(heap_.find(base), run);
  EXPECT_TRUE(run->sampled);
  EXPECT_FALSE(run->fresh);
  heap_.deallocate(run);
  heap_.deallocate(other);
  EXPECT_EQ(heap_.count(PageGroup::brief).pages, 1u);
  heap_.release(Nanos{}, 0);
  EXPECT_EQ(heap_.count(PageGroup::brief).pages, 0u);
  EXPECT_EQ(heap_.pages().counts().empty_backed, 1u);
  EXPECT_TRUE(heap_.is_consistent());
}

// Statistics look at runs that their owners resize; under -fsanitize=thread.
TEST_F(RunsTest, SomebodyCountsWhileRunsAreResized) {
  constexpr int kRounds = 20'000;
  Span* run = heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  std::atomic<bool> done{false};
  std::thread owner([&] {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_NE(heap_.resize(run, kRunMax / 2), nullptr);
      EXPECT_NE(heap_.resize(run, kRunMax), nullptr);
    }
    done = true;
  });
  while (!done.load()) {
    const GroupCounts counts = heap_.count(PageGroup::unknown);
    EXPECT_GE(counts.allocated, kRunMax / 2);
    EXPECT_EQ(counts.allocated + counts.free_blocks, kHugePageSize);
  }
  owner.join();
}

TEST_F(RunsTest, ASampleTakesNoMoreBlocksThanItNeeds) {
  for (int c = 0; c < kSizeClasses; ++c) {
    const int bin = bin_of(PageGroup::brief, c, true);
    void* const sample = heap_.take_one(bin);
    const Span* span = heap_.find(sample);
    ASSERT_TRUE(span->sampled);
    EXPECT_EQ(heap_.pages().used_bytes(),
              align_up(std::max(slot_size_of(bin), kLeastRun), kBlockSize));
    EXPECT_EQ(heap_.give_one(sample), nullptr);
    EXPECT_EQ(heap_.pages().used_bytes(), 0u);
    ASSERT_TRUE(heap_.is_consistent());
  }
}

TEST_F(RunsTest, ParkedRunsHelpOutWhereThereIsNoMemory) {
  Span* run = heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  Span* second = heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  heap_.deallocate(run);
  system_.calls_left = 0;
  EXPECT_NE(one(PageGroup::unknown, 5000), nullptr);
  heap_.deallocate(second);
}

}  // namespace
}  // namespace llamalloc
