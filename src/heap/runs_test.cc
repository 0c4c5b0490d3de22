// SPDX-License-Identifier: Apache-2.0
// Runs: how they grow, what parks, and what fills a huge page.
#include <gtest/gtest.h>

#include <algorithm>
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

// Blocks would count such a size modulo 2^32.
TEST_F(RunsTest, MoreThanThereIsIsNoSizeOfARun) {
  Span* run = heap_.allocate(40 * kBlockSize, 1, PageGroup::unknown, false);
  constexpr size_t kAll = size_t{1} << (32 + kBlockShift);
  for (const size_t bytes : {kAll, kAll + 38 * kBlockSize, kAll - 1, 3 * kAll + 1, SIZE_MAX / 2}) {
    EXPECT_EQ(heap_.resize(run, bytes), nullptr) << bytes;
    EXPECT_EQ(run->bytes, 40 * kBlockSize);
  }
  Span* other = heap_.allocate(40 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(other->base, run->base + 40 * kBlockSize);
  EXPECT_TRUE(heap_.is_consistent());
}

// A page has room for two runs of 88 blocks, and for 80 blocks that smaller objects alone can use.
class LeftBesideRunsTest : public RunsTest {
 protected:
  static constexpr size_t kTwoInAPage = 88 * kBlockSize, kFiveInAPage = 44 * kBlockSize;
  static constexpr size_t kMany = 400;
  void fill(size_t bytes, size_t n) {
    for (size_t i = 0; i < n; ++i)
      spans_.push_back(heap_.allocate(bytes, 1, PageGroup::unknown, false));
  }
  size_t mapped() const {
    return static_cast<size_t>(std::count_if(spans_.begin(), spans_.end(), is_mapped));
  }
  static bool is_mapped(const Span* span) { return span->kind == SpanKind::direct; }
  std::vector<Span*> spans_;
};

TEST_F(LeftBesideRunsTest, WhereMuchIsLeftTheyGetMappings) {
  fill(kTwoInAPage, kMany);
  EXPECT_GT(mapped(), kMany / 2);
  EXPECT_LE(heap_.backed_bytes(), kMany * kTwoInAPage * 9 / 8);
  for (Span* span : spans_) heap_.deallocate(span);
  EXPECT_EQ(heap_.direct().bytes(), 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(LeftBesideRunsTest, InASmallHeapTheyLieInPages) {
  fill(kTwoInAPage, 8);
  EXPECT_EQ(mapped(), 0u);
}

TEST_F(LeftBesideRunsTest, WhatFillsPagesLiesInThem) {
  fill(kFiveInAPage, kMany);
  EXPECT_EQ(mapped(), 0u);
}

TEST_F(LeftBesideRunsTest, WhereSmallerObjectsUseTheRestTheyLieInPages) {
  for (size_t i = 0; i < kMany; i += 2) {
    fill(kTwoInAPage, 2);
    heap_.allocate(80 * kBlockSize, 1, PageGroup::unknown, false);
  }
  EXPECT_EQ(mapped(), 0u);
}

TEST_F(LeftBesideRunsTest, AMappingOfThemIsResizedWhereItIs) {
  fill(kTwoInAPage, kMany);
  Span* span = *std::find_if(spans_.begin(), spans_.end(), is_mapped);
  ASSERT_TRUE(is_mapped(span));
  EXPECT_NE(heap_.resize(span, kTwoInAPage + 1), nullptr);
  EXPECT_EQ(span->bytes, kTwoInAPage + kBlockSize) << "blocks, as runs have";
  EXPECT_EQ(heap_.resize(span, kTwoInAPage), span->base);
  EXPECT_EQ(heap_.resize(span, kTwoInAPage / 2), nullptr) << "pages are for those";
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(LeftBesideRunsTest, WhereTheSystemHasNoMoreTheyLieWhereThereIsRoom) {
  heap_.pages().share_pages_below(0);
  Span* halves[40];
  for (Span*& run : halves) run = heap_.allocate(kRunMax, 1, PageGroup::brief, false);
  for (int i = 0; i < 40; i += 2) heap_.deallocate(halves[i]);
  heap_.pages().limit_growth(heap_.backed_bytes());
  fill(kTwoInAPage, 10);
  for (const Span* span : spans_) {
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->page->group, PageGroup::brief);
  }
}

TEST_F(LeftBesideRunsTest, WhereMappingsAreManyTheyLieInPages) {
  for (size_t i = 0; i < kApartMappings; ++i)
    heap_.allocate(1, 2 * kHugePageSize, PageGroup::unknown, false);
  fill(kTwoInAPage, 200);
  EXPECT_EQ(mapped(), 0u);
}

TEST_F(LeftBesideRunsTest, EmptyPagesThatStayAnywayServe) {
  fill(kTwoInAPage, 20);
  const size_t before = mapped();
  Span* page[10];
  for (Span*& run : page) run = heap_.allocate(kRunMax, 1, PageGroup::brief, false);
  for (Span* run : page) heap_.deallocate(run);
  ASSERT_TRUE(heap_.has_empty_pages());
  fill(kTwoInAPage, 1);
  EXPECT_EQ(mapped(), before + 1);
  heap_.release({}, 4);
  fill(kTwoInAPage, 1);
  EXPECT_EQ(mapped(), before + 1);
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
  EXPECT_EQ(heap_.pages().counts().empty_backed, 1u) << "nobody keeps it";
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
  EXPECT_EQ(heap_.count(PageGroup::unknown).pages, 0u);
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

class ShelvedRunsTest : public RunsTest {
 protected:
  ShelvedRunsTest() {
    for (size_t i = 0; i < kRunMax / Shelf::kEarned; ++i) shelf_.earn(kRunMax);
  }
  Span* run(size_t blocks, PageGroup group = PageGroup::brief) {
    return heap_.allocate(blocks * kBlockSize, 1, group, false);
  }
  void shelve(Span* span) {
    heap_.hide(span);
    if (!heap_.shelve_run(shelf_, span)) heap_.free_run(span);
  }
  Shelf& shelf_ = heap_.next_shelf();
};

TEST_F(ShelvedRunsTest, OneServesTheNextOfItsLengthUntilTheWorkerComes) {
  Span* const first = run(37);
  char* const base = first->base;
  shelve(first);
  EXPECT_EQ(heap_.find(base), nullptr) << "a second free is found";
  EXPECT_TRUE(heap_.has_empty_pages()) << "something for the worker";
  EXPECT_EQ(heap_.count(PageGroup::brief).allocated, 0u);
  EXPECT_EQ(heap_.count(PageGroup::brief).free_blocks, kHugePageSize);
  EXPECT_EQ(heap_.take_shelved(shelf_, PageGroup::brief, {38}, 1), nullptr);
  EXPECT_EQ(heap_.take_shelved(shelf_, PageGroup::session, {37}, 1), nullptr);
  Span* const again = heap_.take_shelved(shelf_, PageGroup::brief, {37}, 1);
  EXPECT_EQ(again, first);
  heap_.show_again(again);
  EXPECT_EQ(heap_.find(base), again);
  EXPECT_FALSE(again->fresh);
  shelve(again);
  EXPECT_EQ(heap_.count(PageGroup::brief).pages, 1u);
  heap_.release(Nanos{}, 0);
  EXPECT_EQ(heap_.count(PageGroup::brief).pages, 0u);
  EXPECT_EQ(heap_.pages().counts().empty_backed, 1u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(ShelvedRunsTest, WhatHasNoRoomIsFree) {
  Span* runs[] = {run(100), run(70)};
  for (Span* each : runs) shelve(each);
  EXPECT_EQ(heap_.take_shelved(shelf_, PageGroup::brief, {70}, 1), nullptr);
  EXPECT_EQ(heap_.pages().used_bytes(), 100 * kBlockSize);
  EXPECT_EQ(run(70), runs[1]);
}

TEST_F(ShelvedRunsTest, OneServesOnlyWhereItIsAligned) {
  run(1);
  Span* const span = heap_.allocate(40 * kBlockSize, 4 * kBlockSize, PageGroup::brief, false);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(span->base) / kBlockSize % 8, 4u);
  shelve(span);
  EXPECT_EQ(heap_.take_shelved(shelf_, PageGroup::brief, {40}, 8), nullptr);
  EXPECT_EQ(heap_.take_shelved(shelf_, PageGroup::brief, {40}, 4), span);
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

// Before the heap grows, what is shelved serves others; also where there is no memory.
TEST_F(ShelvedRunsTest, TheyServeOthersBeforeTheHeapGrows) {
  for (const bool slots : {true, false}) {
    Span* const keeps_page = run(64);
    Span* const shelved = run(128);
    Span* const rest = run(64);
    shelve(shelved);
    if (!slots) system_.calls_left = 0;
    Span* const taken = slots ? heap_.find(one(PageGroup::brief, 200'000)) : run(100);
    ASSERT_NE(taken, nullptr);
    EXPECT_EQ(taken->base, shelved->base);
    EXPECT_EQ(heap_.pages().acquired(), 1u);
    slots ? static_cast<void>(heap_.give_one(taken->base)) : heap_.deallocate(taken);
    heap_.deallocate(keeps_page);
    heap_.deallocate(rest);
  }
  EXPECT_TRUE(heap_.is_consistent());
}

}  // namespace
}  // namespace llamalloc
