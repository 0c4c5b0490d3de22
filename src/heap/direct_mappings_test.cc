// SPDX-License-Identifier: Apache-2.0
#include "heap/direct_mappings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "heap/fetch_debt.h"
#include "heap/test_direct.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

class DirectMappingsTest : public OnFakeMappings {
 protected:
  Span* allocate(size_t bytes, size_t alignment, bool sampled) {
    return direct_.allocate(bytes, alignment, sampled);
  }
};

// The limit that is left counts it no more.
TEST_F(DirectMappingsTest, OneThatMayNotGrowGoesAndMakesRoom) {
  constexpr size_t kBefore = 9 << 20, kLimit = 25 << 20;
  pages_.limit_growth(kLimit);
  deallocate(allocate(kBefore, 1, false));
  EXPECT_FALSE(pages_.promise(kLimit));
  EXPECT_NE(allocate(kLimit - kBefore / 2, 1, false), nullptr);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
  EXPECT_TRUE(pages_.promise(kBefore / 2)) << "of what it asked for nothing is still promised";
}

// Somebody who can make a program ask for it would make it slow.
TEST_F(DirectMappingsTest, WhatCanNeverBeHadCostsNothingThatIsEmpty) {
  const auto is_refused = [&](size_t bytes) {
    EXPECT_EQ(allocate(bytes, 1, false), nullptr);
    EXPECT_EQ(direct_.kept_bytes(), 9u << 20);
  };
  deallocate(allocate(9 << 20, 1, false));
  pages_.limit_growth(25 << 20);
  is_refused(26 << 20);
  is_refused(40 << 20);
  pages_.limit_growth(0);
  system_.most_mapped = system_.mapped + (40 << 20);
  is_refused(60 << 20);
  is_refused(size_t{1} << 46);
  EXPECT_NE(allocate(41 << 20, 1, false), nullptr);  // and maybe a leaf of the map
  EXPECT_EQ(direct_.kept_bytes(), 0u) << "this needed it";
}

// Two of them would share an entry of the map where the system puts one behind the other.
TEST_F(DirectMappingsTest, NoneIsSmallerThanAnEntryOfTheMap) {
  for (const size_t bytes : {size_t{1}, kSmallPage, kBlockSize}) {
    Span* span = allocate(bytes, 2 * kHugePageSize, false);
    EXPECT_EQ(span->bytes, kBlockSize) << bytes;
    deallocate(span);
  }
}

// Else a process could have no more than 65,530 of them, and then no thread or library either.
TEST_F(DirectMappingsTest, WhereTheyAreManyNewOnesTouchTheOnesBefore) {
  constexpr size_t kBytes = 3'000'000;
  for (size_t i = 0; i < kApartMappings; ++i) ASSERT_NE(allocate(1, 1, false), nullptr);
  const Span* before = allocate(kBytes, 1, false);
  int touch = 0;
  constexpr int kMappings = 64;
  for (int i = 0; i < kMappings; ++i) {
    const Span* span = allocate(kBytes, 1, false);
    touch += span->base + span->bytes == before->base || before->base + before->bytes == span->base;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(span->base) % kBlockSize, 0u)
        << "as who asks for that relies on";
    before = span;
  }
  EXPECT_GE(touch, kMappings / 2) << "but where one fills a hole that the process had";
  EXPECT_EQ(
      reinterpret_cast<uintptr_t>(allocate(kBytes, kHugePageSize, false)->base) % kHugePageSize,
      0u);
}

TEST_F(DirectMappingsTest, AFreedMappingServesTheNextOfAboutItsSizeForAWhile) {
  Span* span = allocate(9 << 20, 1, false);
  char* base = span->base;
  EXPECT_TRUE(span->fresh);
  deallocate(span);
  EXPECT_EQ(map_->find(base), nullptr);
  EXPECT_EQ(direct_.kept_bytes(), size_t{9} << 20);
  Span* small = allocate(2 << 20, 1, false);
  EXPECT_NE(small->base, base) << "wastes too much, and is not near enough to be cut";
  span = allocate((9 << 20) - 5000, 1, true);
  EXPECT_EQ(span->base, base);
  EXPECT_EQ(map_->find(base), span);
  EXPECT_FALSE(span->fresh);
  EXPECT_TRUE(span->sampled);
  deallocate(small);
  deallocate(span);
  EXPECT_EQ(direct_.bytes(), 0u);
  EXPECT_EQ(direct_.release(system_.time - Nanos::seconds(1)), 0u) << "too young";
  EXPECT_EQ(direct_.release(system_.time), align_up((size_t{9} << 20), kSmallPage));
  EXPECT_EQ(direct_.kept_bytes(), 0u);
}

TEST_F(DirectMappingsTest, WhatWasFreedLastIsTakenIfItFits) {
  constexpr size_t kBytes = size_t{9} << 20;
  EXPECT_EQ(direct_.take_last(kBytes), nullptr);
  Span* span = allocate(kBytes, 1, false);
  Span* other = allocate(kBytes, 1, false);
  EXPECT_TRUE(direct_.has_room_for(span));
  deallocate(span);
  EXPECT_FALSE(direct_.has_room_for(other));
  EXPECT_EQ(direct_.bytes(), kBytes);
  EXPECT_EQ(direct_.count(), 1u);
  EXPECT_EQ(direct_.take_last(kBytes + kSmallPage), nullptr);
  EXPECT_EQ(direct_.take_last(kBytes / 2), nullptr);
  EXPECT_EQ(direct_.take_last(kBytes), span);
  EXPECT_EQ(span->used_bytes(), kBytes);
  EXPECT_EQ(direct_.take_last(kBytes), nullptr) << "only once";
  EXPECT_EQ(direct_.bytes(), 2 * kBytes);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
  EXPECT_FALSE(direct_.has_room_for(allocate(kKeptMappingMax + 1, 1, false)));
}

// One that has to be aligned as no mapping is by itself looks at all that is kept.
TEST_F(DirectMappingsTest, AnAlignedMappingIsReusedToo) {
  constexpr size_t kAlignment = size_t{1} << 25;
  Span* span = allocate(3 << 20, kAlignment, false);
  char* const base = span->base;
  deallocate(span);
  EXPECT_EQ(allocate(3 << 20, kAlignment, false)->base, base);
}

// What it has of huge pages it keeps, wherever it moves.
TEST_F(DirectMappingsTest, AFreedMappingServesAnotherSizeResized) {
  constexpr size_t kMiB = size_t{1} << 20;
  for (const size_t from : {5 * kMiB, 7 * kMiB, 24 * kMiB})
    for (const size_t to : {6 * kMiB, 9 * kMiB + kSmallPage, 17 * kMiB, 20 * kMiB}) {
      Span* span = allocate(from, 1, false);
      memset(span->base, 7, from);
      deallocate(span);
      span = allocate(to, 1, true);
      ASSERT_NE(span, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(span->base) % kHugePageSize, 0u);
      EXPECT_EQ(map_->find(span->base), span);
      EXPECT_FALSE(span->fresh);
      EXPECT_GE(span->bytes, to);
      EXPECT_LE(span->bytes, to + to / 8);
      EXPECT_EQ(span->base[0], 7) << "its memory was kept";
      EXPECT_LE(span->used_bytes(), std::min(from, span->bytes));
      EXPECT_GT(span->used_bytes(), std::min(from, to) - kHugePageSize);
      for (size_t i = 0; i < to; i += kSmallPage)
        ASSERT_EQ(span->base[i], i < span->used_bytes() ? 7 : 0);
      EXPECT_EQ(direct_.kept_bytes(), 0u);
      EXPECT_EQ(direct_.bytes(), span->bytes);
      deallocate(span);
      direct_.release(Nanos::max());
      EXPECT_TRUE(direct_.is_consistent());
      system_.time = system_.time + FetchDebt::kMoment + Nanos{1};  // none is owed for
    }
  EXPECT_EQ(direct_.bytes(), 0u);
}

// They have small pages: each is cut and grows by those.
TEST_F(DirectMappingsTest, AFreedMappingBelowAHugePageServesAnotherSizeResized) {
  constexpr size_t kFrom = size_t{1500} << 10;
  for (const size_t to :
       {size_t{1100} << 10, (size_t{1700} << 10) + 100, kHugePageSize - kSmallPage}) {
    Span* span = allocate(kFrom, 1, false);
    memset(span->base, 7, kFrom);
    deallocate(span);
    span = allocate(to, 1, false);
    EXPECT_EQ(map_->find(span->base), span);
    EXPECT_FALSE(span->fresh);
    EXPECT_EQ(span->bytes, align_up(to, kSmallPage));
    EXPECT_EQ(span->used_bytes(), std::min(kFrom, span->bytes));
    for (size_t i = 0; i < to; i += kSmallPage) ASSERT_EQ(span->base[i], i < kFrom ? 7 : 0);
    EXPECT_EQ(direct_.kept_bytes(), 0u);
    deallocate(span);
    Span* const huge = allocate(2 * kHugePageSize, 1, false);
    EXPECT_NE(huge, span) << "it has no huge page";
    direct_.release(Nanos::max());
    deallocate(huge);
    EXPECT_NE(allocate(kFrom, 1, false), huge) << "one of its huge pages would be cut";
    direct_.release(Nanos::max());
    EXPECT_TRUE(direct_.is_consistent());
  }
}

// Three buffers a request, and nothing else in use. At first all but the last one go back.
TEST_F(DirectMappingsTest, WhatIsFetchedAgainAndAgainIsKept) {
  constexpr size_t kMiB = size_t{1} << 20, kAll = 15 * kMiB;
  const auto request = [&] {
    Span* const spans[] = {allocate(4 * kMiB, 1, false), allocate(8 * kMiB, 1, false),
                           allocate(3 * kMiB, 1, false)};
    for (Span* span : spans) deallocate(span);
    system_.time = system_.time + Nanos::millis(1);
  };
  system_.time = Nanos::seconds(1000);
  request();
  EXPECT_LT(direct_.kept_bytes(), kAll);
  for (int i = 0; i < 200 && direct_.kept_bytes() < kAll; ++i) request();
  EXPECT_EQ(direct_.kept_bytes(), kAll);
  const int unmaps = system_.unmaps;
  for (int i = 0; i < 100; ++i) request();
  EXPECT_EQ(system_.unmaps, unmaps);
  system_.time = system_.time + FetchDebt::kPaidWithin;  // paid off
  request();
  EXPECT_LT(direct_.kept_bytes(), kAll);
}

// Where fetching is owed for, a mapping twice as large waits for a request of its own size, and a
// part of what is in use stays where the heap grows.
TEST_F(DirectMappingsTest, WhatIsOwedForIsNotCutToLittle) {
  constexpr size_t kMiB = size_t{1} << 20;
  system_.time = Nanos::seconds(1000);
  Span* span = allocate(12 * kMiB, 1, false);
  Span* in_use = allocate(80 * kMiB, 1, false);
  for (int i = 0; i < 100; ++i) {
    deallocate(span);
    direct_.release(Nanos::max());
    span = allocate(12 * kMiB, 1, false);
  }
  deallocate(span);
  EXPECT_NE(allocate(4 * kMiB, 1, false), span);
  EXPECT_EQ(direct_.kept_bytes(), 12 * kMiB);
  EXPECT_EQ(direct_.spared(), kMostSpare);
  system_.time = system_.time + FetchDebt::kPaidWithin;
  EXPECT_EQ(direct_.spared(), 0u);
  EXPECT_EQ(allocate(4 * kMiB, 1, false), span);
  deallocate(in_use);
}

TEST_F(DirectMappingsTest, WhatIsCutAndGrowsAgainIsOwed) {
  constexpr size_t kMiB = size_t{1} << 20;
  system_.time = Nanos::seconds(1000);
  Span* const in_use = allocate(80 * kMiB, 1, false);
  for (int i = 0; i < 100; ++i)
    for (const size_t bytes : {8 * kMiB, 4 * kMiB}) deallocate(allocate(bytes, 1, false));
  EXPECT_EQ(direct_.kept_bytes(), 4 * kMiB) << "one mapping all the time";
  EXPECT_EQ(direct_.spared(), kMostSpare);
  deallocate(in_use);
}

// Those of another size wait in the list, where they are counted.
TEST_F(DirectMappingsTest, RequestsThatNothingFitsDoNotKeepMore) {
  constexpr size_t kMiB = size_t{1} << 20;
  system_.time = Nanos::seconds(1000);
  Span* large[10];
  for (Span*& span : large) span = allocate(20 * kMiB, 1, false);
  for (Span* span : large) {
    deallocate(span);
    allocate(3 * kMiB / 2, 1, false);
    EXPECT_LE(direct_.kept_bytes(), direct_.bytes() / kKeptPart + 20 * kMiB);
  }
}

TEST_F(DirectMappingsTest, WhatIsTooLargeToKeepIsNotOwed) {
  system_.time = Nanos::seconds(1000);
  allocate(size_t{80} << 20, 1, false);
  for (int i = 0; i < 100; ++i) deallocate(allocate(kKeptMappingMax + 1, 1, false));
  EXPECT_EQ(direct_.spared(), 0u);
}

TEST(FetchDebt, OnlyWhatHadGoneBackAMomentBeforeIsOwed) {
  constexpr size_t kMuch = size_t{1} << 30;  // 128 ms
  const Nanos then = Nanos::seconds(10);
  FetchDebt debt;
  debt.fetched(kMuch, then);
  EXPECT_FALSE(debt.is_owed(then)) << "new";
  debt.gave_back(kMuch, then);
  Nanos later = then;
  for (int i = 0; i < 3; ++i) {
    later = later + Nanos::millis(900);
    debt.gave_back(kSmallPage, later);
  }
  debt.fetched(kMuch, later);
  EXPECT_FALSE(debt.is_owed(later)) << "much later";
  debt.gave_back(kMuch / 8, then);
  debt.fetched(kMuch, then);
  EXPECT_FALSE(debt.is_owed(then)) << "little of it had gone back";
  debt.gave_back(kMuch, then);
  debt.fetched(kMuch, then);
  EXPECT_TRUE(debt.is_owed(then));
  EXPECT_TRUE(debt.is_owed(then + Nanos{FetchDebt::kPaidWithin.n - FetchDebt::kShare}));
  EXPECT_FALSE(debt.is_owed(then + FetchDebt::kPaidWithin)) << "paid off";
}

TEST(FetchDebt, ItIsFeltBeforeItIsOwed) {
  constexpr size_t kBytes = size_t{48} << 20;  // 6 ms
  const Nanos then = Nanos::seconds(10);
  FetchDebt debt;
  EXPECT_FALSE(debt.is_felt(then));
  debt.gave_back(kBytes, then);
  debt.fetched(kBytes, then);
  EXPECT_TRUE(debt.is_felt(then));
  EXPECT_FALSE(debt.is_owed(then));
  EXPECT_TRUE(debt.is_felt(then + Nanos::millis(6 * FetchDebt::kShare - 1))) << "until all is paid";
  EXPECT_FALSE(debt.is_felt(then + Nanos::millis(6 * FetchDebt::kShare)));
}

TEST(FetchDebt, AnotherPriceIsOwed) {
  constexpr size_t kBytes = size_t{8} << 20;
  FetchDebt debt;
  debt.gave_back(kBytes, {});
  debt.fetched(kBytes, {});
  EXPECT_FALSE(debt.is_owed({}));
  debt.set_price(Nanos::millis(6));
  debt.gave_back(kBytes, {});
  debt.fetched(kBytes, {});
  EXPECT_TRUE(debt.is_owed({}));
}

TEST_F(DirectMappingsTest, ASystemThatDoesNotResizeGivesANewMapping) {
  constexpr size_t kMiB = size_t{1} << 20;
  system_.time = Nanos::seconds(1000);
  for (const size_t to : {4 * kMiB, 17 * kMiB}) {
    Span* span = allocate(9 * kMiB, 1, false);
    deallocate(span);
    system_.refuse_remap = true;
    span = allocate(to, 1, false);
    system_.refuse_remap = false;
    ASSERT_NE(span, nullptr);
    EXPECT_TRUE(span->fresh);
    EXPECT_EQ(direct_.kept_bytes(), 0u);
    EXPECT_EQ(direct_.bytes(), to);
    deallocate(span);
    direct_.release(Nanos::max());
  }
  EXPECT_EQ(direct_.gaps().bytes(ReuseGaps::kBuckets - 1), 0u) << "nothing waited for long";
  EXPECT_TRUE(direct_.is_consistent());
}

// Where one that grew lies nobody chose.
TEST_F(DirectMappingsTest, AMappingThatGrewIsNotHadAgainWhereANewOneWouldBeAligned) {
  constexpr size_t kBefore = size_t{3} << 19;
  constexpr size_t kBytes = size_t{3} << 20;
  Span* grown[4];
  for (Span*& span : grown) span = allocate(kBefore, 1, false);
  for (Span* span : grown) ASSERT_NE(direct_.resize(span, kBytes), nullptr);
  for (Span* span : grown) {
    deallocate(span);
    Span* const next = allocate(kBytes, kBlockSize, false);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(next->base) % kHugePageSize, 0u);
  }
}

TEST_F(DirectMappingsTest, KeepsTheNewestFreedMappingAndLittleMore) {
  std::vector<Span*> spans;
  for (int i = 0; i < 40; ++i)
    spans.push_back(allocate(static_cast<size_t>(2 + i % 9) << 20, 1, false));
  for (Span* span : spans) {
    deallocate(span);
    ASSERT_LE(direct_.kept_bytes(), std::max(direct_.bytes() / kKeptPart, size_t{10} << 20));
    ASSERT_GT(direct_.kept_bytes(), 0u);
  }
  EXPECT_EQ(direct_.kept_bytes(), size_t{2 + 39 % 9} << 20);
  deallocate(allocate(kKeptMappingMax + 1, 1, false));
  EXPECT_EQ(direct_.kept_bytes(), size_t{2 + 39 % 9} << 20) << "too large to keep";
}

TEST_F(DirectMappingsTest, AMappingThatTheSystemDoesNotTakeBackIsUsedAgain) {
  system_.refuse_unmap = true;
  constexpr size_t kBytes = size_t{200} << 20;  // more than is cached
  Span* first = allocate(kBytes, 1, false);
  char* const base = first->base;
  base[0] = 1;
  deallocate(first);
  EXPECT_LT(system_.resident(base, kBytes), kBytes / 2);
  Span* second = allocate(kBytes, 1, false);
  EXPECT_EQ(second->base, base);
  EXPECT_FALSE(second->fresh);
  EXPECT_EQ(direct_.bytes(), kBytes);
}

TEST_F(DirectMappingsTest, CountsWhatIsInUse) {
  Span* first = allocate(3 << 20, 1, false);
  Span* second = allocate((5 << 20) + 1, 1, false);
  EXPECT_EQ(direct_.count(), 2u);
  EXPECT_EQ(direct_.bytes(), (size_t{8} << 20) + 4096);
  void* moved = direct_.resize(second, 7 << 20);
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(map_->find(moved), second);
  EXPECT_EQ(direct_.bytes(), size_t{10} << 20);
  deallocate(first);
  deallocate(second);
  EXPECT_EQ(direct_.count(), 0u);
  EXPECT_TRUE(direct_.is_consistent());
}

// There the map needs a leaf, for which there is no address space by then: the object stays
// findable.
TEST_F(DirectMappingsTest, WhatTheSystemMovedFarAwayIsFoundWithoutMemoryForTables) {
  constexpr size_t kBytes = size_t{3} << 20;
  Span* span = allocate(kBytes, 1, false);
  char* const base = span->base;
  base[0] = 7;
  system_.moves_far = true;
  system_.most_mapped = system_.mapped + (size_t{1} << 20);
  EXPECT_EQ(direct_.resize(span, kBytes + kSmallPage), nullptr);
  EXPECT_EQ(map_->find(base), span) << "nothing changed";
  system_.most_mapped = SIZE_MAX;
  ASSERT_TRUE(map_->keep_spare(system_));
  system_.most_mapped = system_.mapped + (size_t{1} << 20);
  char* const moved = static_cast<char*>(direct_.resize(span, kBytes + kSmallPage));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(map_->find(moved), span);
  EXPECT_EQ(moved[0], 7);
  EXPECT_EQ(direct_.bytes(), kBytes + kSmallPage);
  EXPECT_TRUE(direct_.is_consistent());
  deallocate(span);
}

TEST_F(DirectMappingsTest, AFailedAllocationIsNotCounted) {
  for (int allowed = 0; allowed < 4; ++allowed) {
    system_.calls_left = allowed;
    Span* span = allocate(3 << 20, 1, false);
    system_.calls_left = INT64_MAX;
    if (span != nullptr) deallocate(span);
    EXPECT_EQ(direct_.bytes(), 0u) << allowed;
    EXPECT_TRUE(direct_.is_consistent()) << allowed;
  }
}

// What one thread freed last another takes, while a third gives it back; under -fsanitize=thread.
TEST(DirectMappings, AMappingBelongsToOneThreadAtATime) {
  MetadataArena arena(system_pages);
  auto map = std::make_unique<SpanMap>();
  NoPageTables tables;
  PageSets sets;
  PageHeap pages(system_pages, arena, tables, sets);
  DirectMappings direct(system_pages, arena, *map, pages);
  std::atomic<bool> done{false};
  const auto work = [&](char id) {
    for (int i = 0; i < 1500; ++i) {
      const size_t bytes = size_t{2 + i % 3u} << 20;
      Span* span = direct.take_last(bytes);
      if (span == nullptr) span = direct.allocate(bytes, 1, false);
      ASSERT_NE(span, nullptr);
      ASSERT_GE(span->bytes, bytes);
      span->base[0] = id;
      if (i % 16 == 0) std::this_thread::yield();
      ASSERT_EQ(span->base[0], id);
      map->set(span->base, {1}, nullptr);
      direct.deallocate(span);
    }
  };
  std::thread worker([&] {
    while (!done.load()) {
      direct.release(Nanos::max());
      EXPECT_LE(direct.bytes(), size_t{64} << 20);
      std::this_thread::yield();
    }
  });
  std::thread threads[] = {std::thread(work, 'a'), std::thread(work, 'b'), std::thread(work, 'c')};
  for (std::thread& thread : threads) thread.join();
  done = true;
  worker.join();
  EXPECT_EQ(direct.bytes(), 0u);
  EXPECT_EQ(direct.count(), 0u);
  EXPECT_TRUE(direct.is_consistent());
  direct.release(Nanos::max());
  EXPECT_EQ(direct.kept_bytes(), 0u);
}

}  // namespace
}  // namespace llamalloc
