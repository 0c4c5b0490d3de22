// SPDX-License-Identifier: Apache-2.0
#include "heap/parked_runs.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace llamalloc {
namespace {

// Records come from an arena and have no constructor.
struct alignas(Span) Record {
  char bytes[sizeof(Span)] = {};
  Span* operator&() { return reinterpret_cast<Span*>(bytes); }
};

TEST(ParkedRuns, GivesARunOfJustThatLengthAndGroup) {
  ParkedRuns parked;
  Record runs[2];
  EXPECT_FALSE(parked.any());
  EXPECT_EQ(parked.park(&runs[0], PageGroup::brief, {40}), nullptr);
  EXPECT_TRUE(parked.any());
  EXPECT_EQ(parked.take(PageGroup::brief, {41}), nullptr);
  EXPECT_EQ(parked.take(PageGroup::brief, {44}), nullptr) << "the same place";
  EXPECT_EQ(parked.take(PageGroup::unknown, {40}), nullptr);
  EXPECT_EQ(parked.park(&runs[1], PageGroup::brief, {44}), &runs[0]) << "makes room";
  EXPECT_EQ(parked.take(PageGroup::brief, {40}), nullptr);
  EXPECT_EQ(parked.take(PageGroup::brief, {44}), &runs[1]);
  EXPECT_EQ(parked.take(PageGroup::brief, {44}), nullptr) << "only once";
}

TEST(ParkedRuns, TellsAllLengthsApart) {
  for (uint32_t n = kBlocksPerHugePage - 1; n != 0; --n) {
    ParkedRuns parked;
    Record run;
    parked.park(&run, PageGroup::unknown, {n});
    for (uint32_t other = 1; other < kBlocksPerHugePage; ++other) {
      if (other != n) {
        ASSERT_EQ(parked.take(PageGroup::unknown, {other}), nullptr) << n << " " << other;
      }
    }
    ASSERT_EQ(parked.take(PageGroup::unknown, {n}), &run) << n;
  }
}

TEST(ParkedRuns, DrainsEachOnce) {
  ParkedRuns parked;
  Record runs[3];
  for (uint32_t i = 0; i < 3; ++i) parked.park(&runs[i], PageGroup::unknown, {33 + i});
  std::vector<Span*> drained;
  parked.drain([&](Span* run) { drained.push_back(run); });
  EXPECT_EQ(drained.size(), 3u);
  EXPECT_FALSE(parked.any());
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(parked.take(PageGroup::unknown, {33 + i}), nullptr);
}

// A run belongs to one thread at a time: each writes its record without more.
TEST(ParkedRuns, NoRunIsInTwoHands) {
  constexpr int kThreads = 4;
  ParkedRuns parked;
  Record runs[kThreads];
  std::vector<std::thread> threads;
  for (Record& run : runs)
    threads.emplace_back([&parked, mine = &run]() mutable {
      for (size_t i = 0; i < 50'000; ++i) {
        mine->bytes = i;
        Span* other = parked.park(mine, PageGroup::unknown, {64});
        while (other == nullptr) other = parked.take(PageGroup::unknown, {64});
        mine = other;
      }
    });
  for (std::thread& thread : threads) thread.join();
  int left = 0;
  parked.drain([&](Span*) { ++left; });
  EXPECT_EQ(left, 0) << "each thread holds one";
}

}  // namespace
}  // namespace llamalloc
