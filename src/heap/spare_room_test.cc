// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "heap/test_direct.h"

namespace llamalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLarge = 4 * kMiB, kAsked = 3 * kMiB / 2;

class SpareRoomTest : public OnFakeMappings {
 protected:
  void SetUp() override {
    system_.time = Nanos::seconds(1000);
    system_.most_moved = SIZE_MAX;
  }
  void let_fetching_be_felt() {
    for (int i = 0; i < 10; ++i) {
      deallocate(allocate(12 * kMiB));
      direct_.release(Nanos::max());
    }
    ASSERT_EQ(direct_.bytes() + direct_.kept_bytes(), 0u);
  }
  void let_time_pass() { system_.time = system_.time + FetchDebt::kPaidWithin; }
  Span* allocate(size_t bytes, bool grows = false) {
    Span* span = direct_.allocate(bytes, 1, false, grows);
    EXPECT_EQ(map_->find(span->base), span);
    EXPECT_TRUE(direct_.is_consistent());
    return span;
  }
  // One that took a kept one of kLarge.
  Span* allocate_within() {
    Span* large = allocate(kLarge);
    char* const base = large->base;
    memset(base, 7, kLarge);
    deallocate(large);
    Span* span = allocate(kAsked);
    EXPECT_EQ(span->base, base);
    EXPECT_EQ(span->spare_bytes(), kLarge - kAsked);
    return span;
  }
  // One whose spare memory the system has just refused to take (mlock).
  Span* allocate_locked() {
    Span* span = allocate_within();
    system_.calls_left = 0;
    EXPECT_EQ(direct_.release(Nanos::max()), 0u);
    system_.calls_left = INT64_MAX;
    return span;
  }
  bool has_memory(const char* at) { return system_.resident(at, kSmallPage) != 0; }
  // In the middle of the next release().
  void meanwhile(std::function<void()> what) {
    meanwhile_ = std::move(what);
    system_.on_release_argument = this;
    system_.on_release = [](void* argument) {
      auto* test = static_cast<SpareRoomTest*>(argument);
      test->system_.on_release = nullptr;
      test->meanwhile_();
    };
  }

  std::function<void()> meanwhile_;
};

TEST_F(SpareRoomTest, WhatGrowsHasRoomToGrowFurther) {
  constexpr size_t kFrom = 4 * kMiB;
  Span* span = allocate(kFrom);
  memset(span->base, 7, kFrom);
  ASSERT_NE(direct_.resize(span, kFrom + kSmallPage), nullptr);
  system_.refuse_remap = true;
  char* const base = span->base;
  size_t size = kFrom + kSmallPage;
  for (; size + kSmallPage <= kFrom + kFrom / kGrowthPart; size += kSmallPage) {
    ASSERT_EQ(direct_.resize(span, size + kSmallPage), base);
    ASSERT_EQ(span->object_size(), size + kSmallPage);
    ASSERT_EQ(direct_.bytes(), size + kSmallPage) << "the rest has no memory";
    base[size] = 7;
  }
  EXPECT_TRUE(direct_.has_grown());
  EXPECT_EQ(direct_.resize(span, 5 * kMiB), nullptr) << "there is no more room";
  system_.refuse_remap = false;
  ASSERT_NE(direct_.resize(span, 5 * kMiB), nullptr);
  EXPECT_EQ(span->base[size - kSmallPage], 7);
  deallocate(span);
  EXPECT_TRUE(direct_.is_consistent());
  EXPECT_EQ(direct_.bytes(), 0u);
}

TEST_F(SpareRoomTest, TheRoomOfALargeOneIsAHugePage) {
  Span* span = allocate(100 * kMiB);
  ASSERT_NE(direct_.resize(span, 101 * kMiB), nullptr);
  EXPECT_EQ(span->spare_bytes(), kHugePageSize);
  const size_t mapped = system_.mapped;
  ASSERT_NE(direct_.resize(span, 50 * kMiB), nullptr);
  EXPECT_EQ(span->spare_bytes(), 0u) << "it shrinks";
  EXPECT_EQ(mapped - system_.mapped, 51 * kMiB + kHugePageSize);
  EXPECT_EQ(direct_.bytes(), 50 * kMiB);
}

TEST_F(SpareRoomTest, NeitherWhereAddressSpaceIsScarce) {
  system_.most_moved = 0;
  let_fetching_be_felt();
  Span* span = allocate(8 * kMiB);
  ASSERT_NE(direct_.resize(span, 9 * kMiB), nullptr);
  EXPECT_EQ(span->spare_bytes(), 0u);
  deallocate(allocate(kLarge));
  EXPECT_EQ(allocate(kAsked)->spare_bytes(), 0u);
}

// The system counts it there, though nothing has touched it.
TEST_F(SpareRoomTest, NoRoomWhereCommittedMemoryIsCounted) {
  direct_.give_room(false);
  Span* span = allocate(8 * kMiB);
  ASSERT_NE(direct_.resize(span, 9 * kMiB), nullptr);
  EXPECT_EQ(span->spare_bytes(), 0u);
  direct_.give_room(true);
  ASSERT_NE(direct_.resize(span, 10 * kMiB), nullptr);
  EXPECT_GT(span->spare_bytes(), 0u);
}

TEST_F(SpareRoomTest, ARoomIsNoReasonToFail) {
  Span* span = allocate(8 * kMiB);
  pages_.limit_growth(9 * kMiB);
  EXPECT_NE(direct_.resize(span, 9 * kMiB), nullptr) << "hard_limit";
  EXPECT_EQ(direct_.resize(span, 9 * kMiB + kSmallPage), nullptr) << "also where there is room";
  EXPECT_EQ(direct_.bytes(), 9 * kMiB);
  EXPECT_NE(direct_.resize(span, 8 * kMiB), nullptr);
  EXPECT_NE(direct_.resize(span, 9 * kMiB), nullptr) << "what was promised before is counted now";
  pages_.limit_growth(0);
  system_.most_remapped = 20 * kMiB;
  ASSERT_NE(direct_.resize(span, 20 * kMiB), nullptr) << "address space";
  EXPECT_EQ(span->spare_bytes(), 0u);
}

TEST_F(SpareRoomTest, WhereFetchingIsFeltALargerOneServesAsItIs) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  EXPECT_EQ(span->object_size(), kAsked);
  EXPECT_EQ(span->used_bytes(), kAsked) << "none of it reads as zero";
  EXPECT_EQ(direct_.spare_bytes(), kLarge - kAsked);
  EXPECT_EQ(direct_.bytes(), kLarge) << "with what it does not need";
  EXPECT_FALSE(direct_.has_room_for(span)) << "it takes more than an atomic operation";
  char* const base = span->base;
  deallocate(span);
  EXPECT_EQ(direct_.kept_bytes(), kLarge);
  EXPECT_EQ(allocate(2 * kMiB + kSmallPage)->base, base);
}

// In the child the thread is gone that gave it back.
TEST_F(SpareRoomTest, AChildFinishesWhatAnotherThreadTrimmed) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  let_time_pass();
  int status = 1;
  meanwhile([&] {
    const pid_t child = fork();
    if (child == 0) {
      const bool stuck = direct_.resize(span, kLarge) == nullptr;
      direct_.finish_trimming();
      const bool good = direct_.bytes() == kAsked && direct_.resize(span, kLarge) != nullptr;
      deallocate(span);
      _exit(stuck && good && direct_.bytes() == 0 && direct_.is_consistent() ? 0 : 2);
    }
    waitpid(child, &status, 0);
  });
  EXPECT_EQ(direct_.release(Nanos::max()), kLarge - kAsked);
  EXPECT_EQ(status, 0);
}

TEST_F(SpareRoomTest, MemoryThatIsLockedStaysCounted) {
  let_fetching_be_felt();
  Span* span = allocate_locked();
  EXPECT_EQ(direct_.bytes(), kLarge);
  EXPECT_EQ(direct_.spare_bytes(), kLarge - kAsked);
  EXPECT_EQ(direct_.release(Nanos::max()), kLarge - kAsked) << "when it can";
  EXPECT_EQ(direct_.bytes(), kAsked);
  deallocate(span);
  EXPECT_EQ(direct_.bytes(), 0u);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(SpareRoomTest, MemoryThatIsLockedIsNotTriedForEver) {
  let_fetching_be_felt();
  Span* locked = allocate_locked();
  EXPECT_FALSE(direct_.has_to_release()) << "the worker would come ten times a second for it";
  Span* other = allocate_within();
  EXPECT_TRUE(direct_.has_to_release());
  system_.calls_left = 0;
  EXPECT_EQ(direct_.release(Nanos::max()), 0u);
  EXPECT_TRUE(direct_.has_to_release()) << "one of two was refused";
  EXPECT_EQ(direct_.release(Nanos::max()), 0u);
  EXPECT_FALSE(direct_.has_to_release());
  ASSERT_NE(direct_.resize(other, kAsked + kSmallPage), nullptr);
  system_.calls_left = INT64_MAX;
  EXPECT_EQ(direct_.release(Nanos::max()), 2 * (kLarge - kAsked) - kSmallPage);
  deallocate(locked);
  deallocate(other);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(SpareRoomTest, WhereNothingIsOwedNoneIsLarger) {
  deallocate(allocate(kLarge));
  allocate(kAsked);
  allocate(5 * kMiB / 2);
  EXPECT_EQ(direct_.spare_bytes(), 0u);
}

TEST_F(SpareRoomTest, LargeOnesAreJoinedInstead) {
  let_fetching_be_felt();
  deallocate(allocate(12 * kMiB));
  allocate(7 * kMiB);
  EXPECT_EQ(direct_.spare_bytes(), 0u);
}

TEST_F(SpareRoomTest, AMuchLargerOneIsNotTaken) {
  let_fetching_be_felt();
  deallocate(allocate(kMostTimes * 2 * kMiB));
  EXPECT_EQ(allocate(kAsked)->spare_bytes(), 0u);
  EXPECT_EQ(direct_.kept_bytes(), kMostTimes * 2 * kMiB);
}

TEST_F(SpareRoomTest, WhatReallocFetchesAgainIsFelt) {
  Span* span = allocate(2 * kMiB);
  for (int i = 0; i < 5; ++i) {
    ASSERT_NE(direct_.resize(span, 20 * kMiB), nullptr);
    ASSERT_NE(direct_.resize(span, 2 * kMiB), nullptr);
  }
  deallocate(allocate(kLarge));
  EXPECT_NE(allocate(kAsked)->spare_bytes(), 0u);
}

TEST_F(SpareRoomTest, AllTogetherHaveLittleSpare) {
  let_fetching_be_felt();
  std::vector<Span*> spans;
  for (int i = 0; i < 100; ++i) {
    deallocate(allocate(kLarge));
    spans.push_back(allocate(kMiB + kSmallPage));
    ASSERT_LE(direct_.spare_bytes(), std::max(kMostUnasked, direct_.bytes() / kSparePart));
  }
  EXPECT_GT(direct_.spare_bytes(), kMostUnasked / 2);
  for (Span* span : spans) deallocate(span);
  EXPECT_EQ(direct_.spare_bytes(), 0u);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(SpareRoomTest, AnObjectGrowsIntoSpareMemory) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  system_.refuse_remap = true;
  ASSERT_EQ(direct_.resize(span, 2 * kMiB), span->base);
  EXPECT_EQ(direct_.spare_bytes(), kLarge - 2 * kMiB);
  ASSERT_EQ(direct_.resize(span, kLarge), span->base);
  EXPECT_EQ(direct_.spare_bytes(), 0u);
  EXPECT_EQ(direct_.bytes(), kLarge);
  EXPECT_EQ(span->base[kLarge - 1], 7);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(SpareRoomTest, SpareMemoryGoesBackWhenNothingIsOwed) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  direct_.release(Nanos{0});
  EXPECT_TRUE(has_memory(span->base + kAsked)) << "fetching is felt";
  let_time_pass();
  const int splits = system_.split_calls;
  EXPECT_EQ(direct_.release(Nanos{0}), kLarge - kAsked);
  EXPECT_EQ(system_.split_calls, splits + 1) << "it begins within a huge page";
  EXPECT_EQ(system_.last_split, span->base + kAsked);
  EXPECT_FALSE(has_memory(span->base + kAsked));
  EXPECT_FALSE(has_memory(span->base + kLarge - kSmallPage));
  EXPECT_EQ(span->base[kAsked - 1], 7);
  EXPECT_EQ(direct_.spare_bytes(), 0u);
  EXPECT_EQ(direct_.bytes(), kAsked);
  EXPECT_TRUE(direct_.is_consistent());
  ASSERT_EQ(direct_.resize(span, 2 * kMiB), span->base) << "there it may grow again";
  EXPECT_EQ(direct_.bytes(), 2 * kMiB);
  deallocate(span);
  EXPECT_EQ(direct_.bytes(), 0u);
}

TEST_F(SpareRoomTest, WhoAsksGetsItAtOnce) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  EXPECT_EQ(direct_.release(Nanos::max()), kLarge - kAsked);
  EXPECT_FALSE(has_memory(span->base + kAsked));
}

TEST_F(SpareRoomTest, OneThatIsFreedMeanwhileIsKeptAfterwards) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  char* const base = span->base;
  meanwhile([&] {
    deallocate(span);
    EXPECT_EQ(direct_.kept_bytes(), 0u) << "not yet";
    EXPECT_NE(allocate(kLarge)->base, base);
  });
  direct_.release(Nanos::max());
  EXPECT_EQ(direct_.kept_bytes(), kLarge);
  EXPECT_EQ(direct_.bytes(), kLarge);
  EXPECT_EQ(allocate(kLarge)->base, base);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(SpareRoomTest, OneThatIsToGrowMeanwhileMoves) {
  let_fetching_be_felt();
  Span* span = allocate_within();
  meanwhile([&] {
    for (const size_t size : {kMiB + kSmallPage, 2 * kMiB, 5 * kMiB})
      EXPECT_EQ(direct_.resize(span, size), nullptr) << size;
    EXPECT_EQ(direct_.resize(span, kAsked), span->base);
    EXPECT_EQ(direct_.release(Nanos::max()), 0u) << "another one";
  });
  direct_.release(Nanos::max());
  EXPECT_EQ(span->base[kAsked - 1], 7);
  EXPECT_NE(direct_.resize(span, 5 * kMiB), nullptr);
  EXPECT_TRUE(direct_.is_consistent());
}

// Under -fsanitize=thread.
TEST_F(SpareRoomTest, OwnersAndWhoGivesBackMeet) {
  DirectMappings direct(system_pages, arena_, *map_, pages_);
  std::atomic<int> working{2};
  const auto work = [&](char id) {
    for (size_t i = 0; i < 1500; ++i) {
      const size_t bytes = kMiB + (i * 7 + 1) % 400 * kSmallPage, more = bytes + 40 * kSmallPage;
      Span* span = direct.allocate(bytes, 1, false);
      ASSERT_NE(span, nullptr);
      ASSERT_EQ(span->object_size() < bytes, false);
      span->base[0] = span->base[bytes - 1] = id;
      if (i % 16 == 0) std::this_thread::yield();
      if (direct.resize(span, more) != nullptr) span->base[more - 1] = id;
      ASSERT_EQ(span->base[0] == id && span->base[bytes - 1] == id, true);
      map_->set(span->base, {1}, nullptr);
      direct.deallocate(span);
    }
    --working;
  };
  std::thread threads[] = {std::thread(work, 'a'), std::thread(work, 'b')};
  while (working != 0) direct.release(Nanos::max()), std::this_thread::yield();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(direct.is_consistent());
  EXPECT_EQ(direct.bytes(), 0u);
  EXPECT_EQ(direct.spare_bytes(), 0u);
  direct.release(Nanos::max());
}

}  // namespace
}  // namespace llamalloc
