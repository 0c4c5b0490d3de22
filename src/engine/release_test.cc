// SPDX-License-Identifier: Apache-2.0
// When the background steps give memory back, in virtual time.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/test_engine.h"

namespace llamalloc {
namespace {

constexpr size_t kSize = 2000;
constexpr size_t kObjects = 40 << 10;  // 80 MiB
constexpr size_t kStays = 512;         // one in so many

class ReleaseTest : public testing::Test {
 protected:
  void SetUp() override {
    engine_.heap.pages().share_pages_below(0);
    objects_.resize(kObjects);
  }
  void fill() {
    for (void*& p : objects_)
      if (p == nullptr) p = engine_.allocate(nullptr, {.size = kSize});
  }
  void give(size_t stays) {
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i] == nullptr || (stays != 0 && i % stays == 0)) continue;
      engine_.deallocate(nullptr, objects_[i], engine_.heap.find(objects_[i]), kUnknownSize);
      objects_[i] = nullptr;
    }
  }
  // Every second span stays, so half of each page.
  void give_half() {
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (i / 64 % 2 == 0) continue;
      engine_.deallocate(nullptr, objects_[i], engine_.heap.find(objects_[i]), kUnknownSize);
      objects_[i] = nullptr;
    }
  }
  void run(int tenths) {
    for (int i = 0; i < tenths; ++i) {
      pages_.time = pages_.time + Nanos::millis(100);
      engine_.step(pages_.time, false);
    }
  }
  // The load comes, for so long, and goes.
  void swing(int times, int up, int down) {
    for (int i = 0; i < times; ++i) fill(), run(up), give(0), run(down);
  }
  void take_half_of_broken_page() {
    constexpr Blocks kMost{kBlocksPerHugePage - 2}, kHalf{kBlocksPerHugePage / 2};
    const auto take = [this](Blocks blocks) {
      const PageHeap::Place place = engine_.heap.pages().take(PageGroup::permanent, blocks, 1);
      memset(place.start(), 1, blocks.bytes());
      return place;
    };
    const PageHeap::Place stays = take({2}), most = take(kMost);
    engine_.heap.pages().give(most.page, most.start(), kMost);
    run(90);
    ASSERT_EQ(get(Stat::pages_broken), 1u);
    ASSERT_EQ(take(kHalf).page, stays.page);
  }
  void set(const char* name, const char* value) {
    const char* error = nullptr;
    ASSERT_TRUE(engine_.options.set(name, strlen(name), value, strlen(value), false, &error));
  }
  // Everything at once, as whoever asks for it does.
  Released release() {
    const Nanos before = pages_.time;
    Released all = engine_.release(0);
    while (engine_.release_free_parts(before, &all)) {
    }
    return all;
  }
  uint64_t get(Stat stat) const { return engine_.counters.get(stat); }
  size_t backed() { return engine_.heap.pages().demand().level().backed; }

  TestEngine<> made_;
  FakePages& pages_ = made_.pages;
  FakeWorld& world_ = made_.world;
  Engine& engine_ = *made_.engine;
  std::vector<void*> objects_;
};

TEST_F(ReleaseTest, SparsePagesAreBrokenAtRest) {
  fill(), give(kStays), run(60);
  EXPECT_GT(get(Stat::bytes_broken), 40u << 20);
  EXPECT_LT(backed(), 20u << 20);
  EXPECT_TRUE(engine_.heap.is_consistent());
}

TEST_F(ReleaseTest, AtRestPagesThatAreHalfFullAreBrokenToo) {
  fill(), give_half(), run(900);
  EXPECT_LT(get(Stat::pages_broken), 5u) << "a processor is busy all the time";
  pages_.processor_share = 0, run(600);
  EXPECT_GT(get(Stat::pages_broken), 30u);
  EXPECT_LT(backed(), kObjects * kSize * 3 / 4);
}

// A backend of a database that waits for its next query, beside a hundred others.
TEST_F(ReleaseTest, ASmallHeapAtRestGivesThemBackSooner) {
  pages_.processor_share = 0;
  fill(), give(0), run(300);
  objects_.resize(kObjects / 10);
  fill(), give_half();
  const size_t before = backed();
  run(30);
  EXPECT_EQ(get(Stat::pages_broken), 0u);
  run(90);
  EXPECT_GT(get(Stat::pages_broken), 2u);
  EXPECT_LT(backed(), before * 3 / 4);
}

TEST_F(ReleaseTest, NotWhereTheyFillAgainEachTime) {
  set("release_forecast", "none");
  pages_.processor_share = 0;
  run(300);
  constexpr int kWaves = 30, kSeconds = 65, kPages = 40;
  for (int wave = 0; wave < kWaves; ++wave) fill(), run(50), give_half(), run(600);
  const double paid =
      BreakPatience::kCreditAtRest + kWaves * kSeconds * BreakPatience::kShareOfTime;
  const double most = paid / BreakPatience::kPrice + kPages;
  ASSERT_LT(most, kWaves * kPages / 1.5);
  EXPECT_LT(static_cast<double>(get(Stat::pages_broken)), most) << "not in each wave";
  EXPECT_GT(get(Stat::pages_mended), 80u);
}

// Who asks again and again breaks pages that are in use.
TEST_F(ReleaseTest, WhereTooManyWereMendedAReleaseThatIsAskedForLeavesFullerPages) {
  pages_.processor_share = 0;
  uint64_t broken[10];
  for (int wave = 0; wave < 10; ++wave) {
    fill(), run(40), give_half();
    const uint64_t before = get(Stat::pages_broken);
    pages_.time = pages_.time + Nanos::seconds(1), release();
    broken[wave] = get(Stat::pages_broken) - before;
  }
  EXPECT_GT(broken[0], 30u);
  EXPECT_LT(broken[9], 5u);
}

TEST_F(ReleaseTest, AtALimitFullerPagesAreBrokenWhateverIsOwed) {
  pages_.processor_share = 0;
  objects_.resize(4 * kObjects);
  for (int wave = 0; wave < 5; ++wave) {
    fill(), run(40), give_half();
    pages_.time = pages_.time + Nanos::seconds(1), release();
  }
  fill(), run(40), give_half();
  const uint64_t before = get(Stat::pages_broken);
  world_.near_limit = {Pressure::Level::at, 0};
  run(14);
  EXPECT_GT(get(Stat::pages_broken) - before, 120u) << "16 a round, one round a step";
}

TEST_F(ReleaseTest, NoDelayBreaksNoFullerPagesOfABusyProcess) {
  set("release_delay", "0");
  fill(), give_half(), run(300);
  EXPECT_LT(get(Stat::pages_broken), 5u);
}

// Whoever asks for it gets all at once, however many pages are sparse.
TEST_F(ReleaseTest, AReleaseThatIsAskedForLeavesNothing) {
  fill(), give(kStays);
  pages_.time = pages_.time + Nanos::seconds(1);
  EXPECT_GT(release().broken_pages, 60u << 20);
  EXPECT_LT(backed(), 10u << 20);
  EXPECT_EQ(release().total(), 0u);
  EXPECT_TRUE(engine_.heap.is_consistent());
}

TEST_F(ReleaseTest, AReleaseSaysWhatAnEmptyPageHad) {
  engine_.heap.pages().grant_huge_pages(false);
  const PageHeap::Place place = engine_.heap.pages().take(PageGroup::unknown, {3}, 1);
  engine_.heap.pages().give(place.page, place.start(), {3});
  EXPECT_EQ(release().empty_pages, 3 * kBlockSize);
}

TEST_F(ReleaseTest, AReleaseEndsWhereTheSystemRefuses) {
  fill(), give(kStays);
  pages_.time = pages_.time + Nanos::seconds(1);
  pages_.calls_left = 40;
  EXPECT_GT(release().broken_pages, 0u);
  EXPECT_EQ(release().broken_pages, 0u);
  pages_.calls_left = INT64_MAX;
  EXPECT_TRUE(engine_.heap.is_consistent());
}

TEST_F(ReleaseTest, NotBelowTheDemandThatIsForecast) {
  set("release_forecast", "peak");
  fill(), run(20), give(kStays), run(100);
  EXPECT_EQ(get(Stat::bytes_broken), 0u);
  EXPECT_GT(get(Stat::release_skipped), 40u << 20);
  EXPECT_GT(get(Stat::broken_by_rate), 40u << 20);
  run(700);
  EXPECT_LT(backed(), 20u << 20) << "once the window is over";
  run(700);
  EXPECT_EQ(get(Stat::release_skipped_right) + get(Stat::release_skipped_wrong),
            get(Stat::release_skipped));
}

// It has 20 s to become empty by itself, but demand that comes back is not awaited for so long.
TEST_F(ReleaseTest, ASparsePageIsNotSparedLongerThanDemandIsAwaited) {
  constexpr Blocks kMost{kBlocksPerHugePage - 2};
  const auto take = [this](Blocks blocks) {
    const PageHeap::Place place = engine_.heap.pages().take(PageGroup::brief, blocks, 1);
    memset(place.start(), 1, blocks.bytes());
    return place;
  };
  take(Blocks{2});
  const PageHeap::Place rest = take(kMost);
  run(30);
  engine_.heap.pages().give(rest.page, rest.start(), kMost);
  run(90);
  EXPECT_EQ(get(Stat::bytes_broken), kMost.bytes());
}

TEST_F(ReleaseTest, ASwingingLoadIsRecognised) {
  for (int swing = 0; swing < 8; ++swing) {
    fill(), run(50), give(kStays), run(50);
  }
  const uint64_t broken = get(Stat::bytes_broken);
  fill(), run(50), give(kStays), run(50);
  EXPECT_EQ(get(Stat::bytes_broken), broken);
}

TEST_F(ReleaseTest, NearALimitNothingIsKept) {
  set("release_forecast", "peak");
  fill(), run(20), give(kStays), run(50);
  ASSERT_EQ(get(Stat::bytes_broken), 0u);
  world_.near_limit = {Pressure::Level::near, 1 << 20};
  run(60);
  EXPECT_LT(backed(), 20u << 20);
  EXPECT_GT(get(Stat::limit_releases), 0u);
}

TEST_F(ReleaseTest, NearALimitLittleBesideTheRoomStaysWhereItIsNeededAgain) {
  const auto refetched = [this] {
    const size_t before = engine_.heap.pages().counts().refetched;
    swing(20, 5, 5);
    return engine_.heap.pages().counts().refetched - before;
  };
  world_.near_limit = {Pressure::Level::near, size_t{1} << 30};
  EXPECT_EQ(refetched(), 0u) << "80 MiB come and go each second";
  world_.near_limit = {Pressure::Level::near, 100 << 20};
  EXPECT_GT(refetched(), 500u) << "beside so little room";
  world_.near_limit = {Pressure::Level::near, SIZE_MAX, SIZE_MAX, true};
  EXPECT_GT(refetched(), 500u) << "where others wait for it";
}

TEST_F(ReleaseTest, ManyEmptyPagesGoBackAFewAtATime) {
  constexpr size_t kPages = 1000;
  constexpr Blocks kAll{kBlocksPerHugePage};
  PageHeap& pages = engine_.heap.pages();
  std::vector<PageHeap::Place> all;
  for (size_t i = 0; i < kPages; ++i) all.push_back(pages.take(PageGroup::unknown, kAll, 1));
  for (const PageHeap::Place& one : all) pages.give(one.page, one.start(), kAll);
  pages_.time = pages_.time + Nanos::seconds(2);
  Nanos sleep = engine_.step(pages_.time, false);
  EXPECT_GT(pages.counts().released, 100u);
  EXPECT_LT(pages.counts().released, kPages / 2) << "who forks waits for it";
  for (int i = 0; i < 5 && sleep < kShortSleep; ++i) {
    pages_.time = pages_.time + sleep;
    sleep = engine_.step(pages_.time, false);
  }
  EXPECT_EQ(pages.counts().released, kPages) << "and then at once";
  EXPECT_GE(sleep, kShortSleep);
}

TEST_F(ReleaseTest, WhatIsRetainedWakesNobody) {
  set("retain", "32MiB");
  fill(), run(20), give(0);
  Nanos sleep{};
  for (int i = 0; i < 400; ++i) {
    pages_.time = pages_.time + Nanos::millis(100);
    sleep = engine_.step(pages_.time, false);
  }
  EXPECT_EQ(backed(), 32u << 20);
  EXPECT_EQ(sleep, kLongSleep);
  EXPECT_FALSE(engine_.heap.has_empty_pages());
}

TEST_F(ReleaseTest, TheHeapKnowsWhenALimitIsNear) {
  fill(), run(11);
  EXPECT_FALSE(engine_.heap.pages().is_nearly_full());
  world_.near_limit = {Pressure::Level::none, 50 << 20, 1 << 20};
  run(11);
  EXPECT_FALSE(engine_.heap.pages().is_nearly_full());
  objects_.resize(2 * kObjects), fill();
  EXPECT_TRUE(engine_.heap.pages().is_nearly_full()) << "also between two looks at it";
  world_.near_limit = {};
  run(11);
  EXPECT_FALSE(engine_.heap.pages().is_nearly_full());
}

TEST_F(ReleaseTest, AtALimitNothingWaitsUntilItRests) {
  set("release_delay", "1h");
  fill(), run(20), give(kStays);
  world_.near_limit = {Pressure::Level::at, 0};
  run(60);
  EXPECT_LT(backed(), 20u << 20);
}

// 16 pages a round, one round a step.
TEST_F(ReleaseTest, AtALimitAllAreBrokenWithinTwoSeconds) {
  set("release_delay", "1h");
  objects_.resize(4 * kObjects);
  fill(), run(20), give(kStays);
  world_.near_limit = {Pressure::Level::at, 0};
  run(18);
  EXPECT_LT(backed(), 40u << 20);
}

// Those in pieces cost less, so they come first; whoever asks has the others, too.
TEST_F(ReleaseTest, AReleaseThatIsAskedForGoesOnToWholePages) {
  objects_.resize(2 * kObjects);
  fill(), give(kStays);
  ASSERT_GT(release().broken_pages, 60u << 20);
  for (size_t i = 0; i < kObjects; ++i)
    if (objects_[i] == nullptr && i % 3 == 0)
      objects_[i] = engine_.allocate(nullptr, {.size = kSize});
  objects_.resize(6 * kObjects);
  fill(), give(kStays);
  EXPECT_GT(release().broken_pages, 60u << 20);
  EXPECT_LT(backed(), 60u << 20);
}

// Mending gives a page memory for what is free in it.
TEST_F(ReleaseTest, NearALimitAHalfFullPageIsNotMended) {
  take_half_of_broken_page();
  const size_t before = backed();
  for (const auto level : {Pressure::Level::near, Pressure::Level::at}) {
    world_.near_limit = {level, 0};
    run(50);
    EXPECT_EQ(pages_.collapse_calls, 0);
    EXPECT_EQ(backed(), before);
  }
  world_.near_limit = {};
  run(20);
  EXPECT_EQ(get(Stat::pages_mended), 1u) << "afterwards it is";
}

TEST_F(ReleaseTest, WhatTheSystemDoesNotMakeHugeIsCountedAndStaysBroken) {
  fill(), give(kStays), run(60);
  const size_t broken = engine_.heap.pages().broken();
  ASSERT_GT(broken, 30u);
  pages_.collapse_gives = Collapse::refused;
  fill(), run(20);
  EXPECT_GT(get(Stat::pages_unmendable), 0u);
  EXPECT_EQ(get(Stat::pages_mended), 0u);
  EXPECT_EQ(engine_.heap.pages().broken(), broken);
  EXPECT_TRUE(engine_.heap.is_consistent());
}

// Whoever asks for memory back does not want any to be added.
TEST_F(ReleaseTest, AReleaseThatIsAskedForMendsNothing) {
  take_half_of_broken_page();
  release();
  EXPECT_EQ(pages_.collapse_calls, 0);
  run(20);
  EXPECT_EQ(get(Stat::pages_mended), 1u);
}

// In bursts, the pages are fetched again in a moment. Their tables are no hundredth of them.
TEST_F(ReleaseTest, NearALimitTablesStayASecondLonger) {
  world_.near_limit = {Pressure::Level::near, 1 << 20};
  run(20), fill(), give(0), run(2);
  EXPECT_LT(backed(), 4u << 20);
  EXPECT_TRUE(engine_.heap.pages().has_tables());
  run(12);
  EXPECT_FALSE(engine_.heap.pages().has_tables());
}

TEST_F(ReleaseTest, AtALimitTablesGoBackAtOnce) {
  world_.near_limit = {Pressure::Level::at, 0};
  run(20), fill(), give(0), run(2);
  EXPECT_LT(backed(), 4u << 20);
  EXPECT_FALSE(engine_.heap.pages().has_tables());
}

TEST_F(ReleaseTest, TheRateBoundsIt) {
  set("release_rate", "2MiB");
  fill(), run(20), give(kStays), run(100);
  EXPECT_LE(get(Stat::bytes_broken), 22u << 20);
  EXPECT_GE(get(Stat::bytes_broken), 8u << 20);
}

// Whole pages are needed again 1.5 s after they were freed. The heap is so large that holding them
// costs little of it.
TEST_F(ReleaseTest, EmptyPagesAreHeldAsLongAsTheyAreMissed) {
  for (int i = 0; i < 6000; ++i) ASSERT_NE(engine_.allocate(nullptr, {.size = kRunMax}), nullptr);
  const size_t rest = backed();
  swing(10, 5, 15);
  EXPECT_EQ(get(Stat::hold_empty), 2'000'000'000u);
  const size_t before = engine_.heap.pages().counts().refetched;
  EXPECT_GT(before, 0u);
  swing(1, 5, 15);
  fill();
  EXPECT_EQ(engine_.heap.pages().counts().refetched, before);
  give(0), run(150);
  EXPECT_LE(backed(), rest + (4u << 20)) << "and then they go back all the same";
}

TEST_F(ReleaseTest, EmptyPagesAreNotHeldWhereThatIsAllOfTheHeap) {
  swing(10, 5, 15);
  EXPECT_EQ(get(Stat::hold_empty), 1'000'000'000u);
}

// Whatever they keep, where fetching them costs a good part of the work.
TEST_F(ReleaseTest, EmptyPagesAreHeldWhereFetchingThemCostsTooMuch) {
  pages_.fetch_time = Nanos::millis(5);
  pages_.processor_share = 0.25;
  swing(20, 20, 60);
  EXPECT_GE(get(Stat::hold_empty), 8'000'000'000u);
  const size_t before = engine_.heap.pages().counts().refetched;
  swing(1, 20, 60), fill();
  EXPECT_LE(engine_.heap.pages().counts().refetched, before + 4) << "some to measure the price";
  give(0), run(500);
  EXPECT_LE(backed(), 4u << 20) << "and then they go back all the same";
}

// 60 mappings, 90 huge pages, are 22 ms at 0.25 ms a page. In a minute 0.4 s of credit and a
// fortieth of 15 s of processor time may be fetched: 34 bursts.
TEST_F(ReleaseTest, BurstsOfMappingsAreFetchedForAFortiethOfTheTime) {
  std::vector<void*> mappings(60);
  const auto burst = [&] {
    for (void*& p : mappings) ASSERT_NE(p = engine_.allocate(nullptr, {.size = 3 << 20}), nullptr);
    for (void* p : mappings) engine_.deallocate(nullptr, p, engine_.heap.find(p), kUnknownSize);
  };
  const auto unmapped = [&](int bursts) {
    const int before = pages_.unmaps;
    for (int i = 0; i < bursts; ++i) burst(), run(3);
    return pages_.unmaps - before;
  };
  pages_.processor_share = 0.25;
  EXPECT_GT(unmapped(4), 100);
  EXPECT_LT(unmapped(200), 34 * 60);
  EXPECT_EQ(unmapped(100), 0) << "all is held until the debt is paid off";
  EXPECT_EQ(engine_.heap.direct().kept_bytes(), size_t{180} << 20);
  pages_.processor_share = 0;
  run(50);
  EXPECT_EQ(engine_.heap.direct().kept_bytes(), 0u) << "at rest they go back all the same";
}

// A host has some of them at hand.
TEST_F(ReleaseTest, ThePriceIsAMeanOfSeveralPages) {
  pages_.fetch_time = Nanos::millis(5);
  pages_.half_are_cheap = true;
  swing(5, 20, 60);
  EXPECT_EQ(get(Stat::fetch_nanos), (5'000'000u + 250'000u) / 2);
}

TEST_F(ReleaseTest, AtRestTheyGoBackAllTheSame) {
  pages_.fetch_time = Nanos::millis(5);
  pages_.processor_share = 0.25;
  swing(20, 20, 60);
  swing(1, 20, 30);
  EXPECT_GT(backed(), 4u << 20);
  pages_.processor_share = 0;
  run(20);
  EXPECT_LE(backed(), 4u << 20);
}

TEST_F(ReleaseTest, AHardLimitIsNotPassed) {
  engine_.heap.pages().limit_growth(64 << 20);
  fill();
  EXPECT_EQ(objects_.back(), nullptr);
  EXPECT_LE(backed(), 64u << 20);
  EXPECT_GT(backed(), 60u << 20);
  EXPECT_EQ(engine_.allocate(nullptr, {.size = 8 << 20}), nullptr) << "mappings count, too";
  give(0), run(100);
  EXPECT_NE(engine_.allocate(nullptr, {.size = 8 << 20}), nullptr);
}

TEST_F(ReleaseTest, WhatTheSystemRefusesIsCountedAndLosesNothing) {
  fill(), give(kStays), run(1);
  pages_.calls_left = 0;
  run(60);
  EXPECT_GT(get(Stat::pages_unbreakable), 0u);
  EXPECT_EQ(get(Stat::bytes_broken), 0u);
  pages_.calls_left = INT64_MAX;
  for (size_t i = 0; i < objects_.size(); i += kStays) EXPECT_NE(objects_[i], nullptr);
  EXPECT_TRUE(engine_.heap.is_consistent());
}

}  // namespace
}  // namespace llamalloc
