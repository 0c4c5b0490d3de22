// SPDX-License-Identifier: Apache-2.0
// Many mappings that come together, and all go, again and again.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "heap/test_direct.h"

namespace llamalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class BurstsTest : public OnFakeMappings {
 protected:
  void SetUp() override {
    system_.time = Nanos::seconds(1000);
    direct_.begin_epoch();
  }
  void TearDown() override {
    direct_.release(Nanos::max());
    EXPECT_EQ(direct_.kept_bytes(), 0u);
    EXPECT_TRUE(direct_.is_consistent());
  }
  void burst(int mappings, size_t bytes) {
    std::vector<Span*> spans;
    for (int i = 0; i < mappings; ++i) spans.push_back(direct_.allocate(bytes, 1, false));
    for (Span* span : spans) deallocate(span);
  }
  void wait(Nanos time) { system_.time = system_.time + time; }
  // Needed again after at least so long.
  size_t needed_after(Nanos gap) const {
    size_t bytes = 0;
    for (int b = ReuseGaps::bucket_of(gap); b < ReuseGaps::kBuckets; ++b)
      bytes += direct_.gaps().bytes(b);
    return bytes;
  }
};

TEST_F(BurstsTest, WhereFetchingIsOwedForAllIsKept) {
  constexpr int kMappings = 60;
  constexpr size_t kAll = kMappings * 3 * kMiB;
  burst(kMappings, 3 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), kAll / 2) << "one burst is not dear";
  for (int i = 0; i < 4; ++i) burst(kMappings, 3 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), kAll);
  const int unmaps = system_.unmaps;
  for (int i = 0; i < 10; ++i) burst(kMappings, 3 * kMiB);
  EXPECT_EQ(system_.unmaps, unmaps);
  wait(FetchDebt::kPaidWithin);
  burst(kMappings, 3 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), kAll / 2) << "paid off";
}

TEST_F(BurstsTest, WhereNobodyGivesThemBackLittleIsKept) {
  wait(kWatched + kWatched);
  for (int i = 0; i < 5; ++i) burst(60, 3 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), kOwedKept);
  direct_.set_in_debt(true);
  burst(60, 3 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), kOwedKept);
  direct_.begin_epoch();
  burst(60, 3 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 180 * kMiB);
}

// Objects of another size then need that memory, and would come on top.
TEST_F(BurstsTest, WithWhatIsInUseTheyDoNotExceedThePeakOfLate) {
  for (int i = 0; i < 5; ++i) burst(60, 3 * kMiB);
  std::vector<Span*> in_use;
  for (int i = 0; i < 60; ++i) in_use.push_back(direct_.allocate(3 * kMiB, 1, false));
  for (int i = 0; i < 20; ++i) {
    deallocate(in_use.back()), in_use.pop_back();
    EXPECT_EQ(direct_.kept_bytes() + direct_.bytes(), 180 * kMiB);
  }
  for (; !in_use.empty(); in_use.pop_back()) deallocate(in_use.back());
}

TEST_F(BurstsTest, ThePeakIsThatOfTheLastTwoEpochs) {
  for (int i = 0; i < 5; ++i) burst(60, 3 * kMiB);
  direct_.begin_epoch();
  burst(60, 3 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 180 * kMiB);
  direct_.release(Nanos::max());
  direct_.begin_epoch(), direct_.begin_epoch();
  burst(20, 3 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 60 * kMiB);
  burst(2, 16 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), 60 * kMiB);
}

TEST_F(BurstsTest, WherePagesAreInUseLittleIsKeptBesideThem) {
  for (int i = 0; i < 5; ++i) burst(60, 3 * kMiB);
  for (int i = 0; i < 85; ++i)
    ASSERT_NE(pages_.take(PageGroup::unknown, {kBlocksPerHugePage}, 1).page, nullptr);
  EXPECT_EQ(direct_.kept_bytes(), 180 * kMiB);
  burst(2, 3 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), kOwedKept);
}

// The walk over the kept ones takes time.
TEST_F(BurstsTest, NoMoreAreKeptThanCanBeLookedAt) {
  for (int i = 0; i < 4; ++i) burst(kOwedMappings + 100, 3 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), kOwedMappings * 3 * kMiB);
}

TEST_F(BurstsTest, WhoOwesForAllOfThemKeepsThemToo) {
  direct_.set_in_debt(true);
  burst(60, 3 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 180 * kMiB);
  EXPECT_TRUE(direct_.is_owed());
  direct_.set_in_debt(false);
  EXPECT_FALSE(direct_.is_owed());
  burst(60, 3 * kMiB);
  EXPECT_LE(direct_.kept_bytes(), 90 * kMiB);
}

// Else nobody knows that a longer hold would have kept them.
TEST_F(BurstsTest, WhatIsFetchedAgainIsCountedInBytes) {
  burst(60, 3 * kMiB);
  direct_.release(Nanos::max());
  wait(Nanos::millis(300));
  burst(24, 5 * kMiB);
  EXPECT_EQ(needed_after(Nanos::millis(250)), 120 * kMiB) << "sizes do not matter";
  direct_.release(Nanos::max());
  burst(60, 3 * kMiB);
  EXPECT_EQ(needed_after(Nanos::millis(250)), 180 * kMiB) << "of the first burst 60 were left";
  burst(60, 3 * kMiB);
  EXPECT_LE(needed_after(Nanos::millis(250)), 180 * kMiB);
}

TEST_F(BurstsTest, WhatIsKeptAndCutOrJoinedCountsAsNeeded) {
  system_.most_moved = SIZE_MAX;
  direct_.set_in_debt(true);
  burst(20, 8 * kMiB);
  wait(Nanos::millis(300));
  std::vector<Span*> spans;
  for (int i = 0; i < 10; ++i) spans.push_back(direct_.allocate(12 * kMiB, 1, false));
  EXPECT_GE(needed_after(Nanos::millis(250)), 110 * kMiB) << "what was freed last does not count";
  EXPECT_LE(needed_after(Nanos::millis(250)), 120 * kMiB);
  for (Span* span : spans) deallocate(span);
}

TEST(GoneMemory, WhatWasFreedLastIsNeededFirst) {
  GoneMemory gone;
  std::vector<std::pair<int64_t, size_t>> taken;
  const auto take = [&](size_t bytes) {
    taken.clear();
    gone.take(bytes, [&](Nanos freed, size_t part) { taken.emplace_back(freed.n, part); });
    return taken;
  };
  using Taken = std::vector<std::pair<int64_t, size_t>>;
  const Nanos first = Nanos::seconds(5), later = Nanos::seconds(6);
  EXPECT_EQ(take(7), Taken{});
  gone.add(10, first);
  gone.add(20, later);
  gone.add(5, later + Nanos::millis(1));
  EXPECT_EQ(take(7), (Taken{{later.n, 7}})) << "those of about the same time are one";
  EXPECT_EQ(take(30), (Taken{{later.n, 18}, {first.n, 10}}));
  EXPECT_EQ(take(1), Taken{});
}

TEST(GoneMemory, TheOldestIsForgotten) {
  GoneMemory gone;
  for (int i = 0; i <= GoneMemory::kParts; ++i) gone.add(1, Nanos::seconds(i));
  size_t bytes = 0;
  int64_t oldest = 0;
  gone.take(SIZE_MAX, [&](Nanos freed, size_t part) { bytes += part, oldest = freed.n; });
  EXPECT_EQ(bytes, size_t{GoneMemory::kParts});
  EXPECT_EQ(oldest, Nanos::seconds(1).n);
}

}  // namespace
}  // namespace llamalloc
