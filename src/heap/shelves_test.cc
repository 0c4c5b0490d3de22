// SPDX-License-Identifier: Apache-2.0
#include "heap/shelves.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace llamalloc {
namespace {

constexpr size_t kBytes = slot_size_of(5);

void earn(Shelf& shelf, size_t bytes) {
  while (shelf.room < bytes) shelf.earn(bytes);
}

char* address(size_t i) {
  return reinterpret_cast<char*>((i + 1) * kBlockSize);
}

class ShelvesTest : public testing::Test {
 protected:
  bool put(Kind kind, size_t i, uintptr_t blocks = 0) {
    return shelves_->put(shelf_, kind, address(i), blocks);
  }
  std::unique_ptr<Shelves> shelves_ = std::make_unique<Shelves>();
  Shelf& shelf_ = shelves_->next();
};

TEST_F(ShelvesTest, GiveWhatIsOfThatKind) {
  std::vector<Kind> kinds;
  for (int bin = 0; bin < kLocalBins; bin += 7) kinds.push_back(Kind::of_slot(bin));
  for (int g = 0; g < kPageGroups; ++g)
    for (uint32_t n = 1; n < kBlocksPerHugePage; n += 5)
      kinds.push_back(Kind::of_run(static_cast<PageGroup>(g), {n}));
  earn(shelf_, kHugePageSize);
  for (const Kind kind : kinds) {
    ASSERT_TRUE(put(kind, kind.word));
    for (const Kind other : kinds)
      if (other.word != kind.word) {
        ASSERT_EQ(shelf_.take(other), nullptr) << kind.word << " " << other.word;
      }
    ASSERT_EQ(shelf_.take(kind), address(kind.word));
    ASSERT_EQ(shelf_.take(kind), nullptr) << "only once";
  }
}

TEST_F(ShelvesTest, GiveTheNewest) {
  earn(shelf_, 5 * kBytes);
  const Kind kind = Kind::of_slot(5), other = Kind::of_slot(6);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(put(kind, i));
  ASSERT_TRUE(put(other, 3));
  EXPECT_EQ(shelf_.take(kind), address(2));
  EXPECT_EQ(shelf_.take(other), address(3));
  EXPECT_EQ(shelf_.take(kind), address(1));
  EXPECT_EQ(shelf_.take(kind), address(0));
}

TEST_F(ShelvesTest, RoomIsEarnedAndHalves) {
  const Kind kind = Kind::of_slot(5);
  EXPECT_FALSE(put(kind, 0));
  earn(shelf_, 10 * kBytes);
  size_t n = 0;
  while (put(kind, n)) ++n;
  EXPECT_EQ(n, 10u);
  shelf_.earn(10 * kBytes);
  EXPECT_FALSE(put(kind, n)) << "not beyond that";
  EXPECT_EQ(shelves_->bytes(), 10 * kBytes);
  EXPECT_EQ(shelf_.take(kind), address(9));
  shelves_->halve_rooms();
  EXPECT_FALSE(put(kind, 9));
  for (size_t i = 9; i-- != 4;) EXPECT_EQ(shelf_.take(kind), address(i));
  EXPECT_TRUE(put(kind, 4));
  EXPECT_FALSE(put(kind, 5));
}

TEST_F(ShelvesTest, HoldNoMoreOfMixedSizesEither) {
  const size_t room = 20 * kBlockSize;
  earn(shelf_, room);
  size_t n = 0;
  for (uint32_t blocks = 10; blocks != 0; --blocks)
    while (put(Kind::of_run(PageGroup::brief, {blocks}), n)) ++n;
  EXPECT_EQ(shelves_->bytes(), room);
  shelves_->drain([](Kind, void*) {});
  EXPECT_EQ(shelves_->bytes(), 0u);
  const Kind all = Kind::of_run(PageGroup::brief, {20});
  for (const bool others : {false, true, false, true}) {
    ASSERT_TRUE(put(all, 0)) << "all of the room is there again";
    EXPECT_EQ(others ? shelf_.steal(all, 1) : shelf_.take(all), address(0));
  }
  ASSERT_TRUE(put(all, 0));
  EXPECT_FALSE(put(Kind::of_slot(0), 1));
}

// More of a kind than a row has places for, and of others that begin in the same rows.
TEST_F(ShelvesTest, FindWhatHadNoPlaceInTheFirstRow) {
  constexpr size_t kEach = 2 * Shelf::kInRow + 3;
  const std::vector<Kind> kinds{Kind::of_slot(1), Kind::of_slot(2),
                                Kind::of_slot(1 + Shelf::kHomes)};
  earn(shelf_, kHugePageSize);
  for (size_t i = 0; i < kEach; ++i)
    for (const Kind kind : kinds) ASSERT_TRUE(put(kind, i * 3 + kind.word % 3));
  for (const Kind kind : kinds) {
    std::set<void*> found;
    while (void* what = shelf_.take(kind)) found.insert(what);
    EXPECT_EQ(found.size(), kEach) << kind.word;
  }
  EXPECT_EQ(shelves_->bytes(), 0u);
  for (const auto& top : shelf_.tops) EXPECT_EQ(top, 0) << "a miss looks at one row again";
}

// Where there are many of one kind, the newest are in the top row: none is looked for from below.
TEST_F(ShelvesTest, TheTopComesDownWithWhatIsTaken) {
  const Kind kind = Kind::of_slot(5);
  earn(shelf_, Shelf::kPlaces * kBytes);
  for (size_t i = 0; i < Shelf::kPlaces; ++i) ASSERT_TRUE(put(kind, i));
  for (size_t i = Shelf::kPlaces; i-- != 0;) {
    ASSERT_EQ(shelf_.take(kind), address(i));
    ASSERT_EQ(shelf_.tops[5], i / Shelf::kInRow);
  }
}

TEST_F(ShelvesTest, FillTheirHoles) {
  earn(shelf_, Shelf::kPlaces * kBytes);
  for (size_t i = 0; i < Shelf::kPlaces; ++i)
    ASSERT_TRUE(put(Kind::of_slot(static_cast<int>(i % 2)), i));
  EXPECT_FALSE(put(Kind::of_slot(0), 999)) << "no place";
  constexpr size_t kHoles = 10;
  for (size_t i = 0; i < kHoles; ++i) ASSERT_NE(shelf_.take(Kind::of_slot(0)), nullptr);
  for (size_t i = 0; i < kHoles; ++i) ASSERT_TRUE(put(Kind::of_slot(3), i));
  EXPECT_FALSE(put(Kind::of_slot(3), 999));
  for (size_t i = 0; i < kHoles; ++i) ASSERT_NE(shelf_.take(Kind::of_slot(3)), nullptr);
}

// What others took from the bottom is room again, when it is counted. That is not each time.
TEST_F(ShelvesTest, CountAgainWhereOthersTake) {
  const Kind kind = Kind::of_slot(5);
  earn(shelf_, 2 * Shelf::kPlaces * kBytes);  // what counts are places
  for (size_t i = 0; i < Shelf::kPlaces; ++i) ASSERT_TRUE(put(kind, i));
  for (size_t i = 0; i < 5; ++i) ASSERT_EQ(shelf_.steal(kind, 1), address(i));
  for (size_t i = 0; i < 5; ++i) ASSERT_TRUE(put(kind, i)) << "counted at once";
  EXPECT_FALSE(put(kind, 999)) << "counted in vain";
  ASSERT_NE(shelf_.steal(kind, 1), nullptr);
  size_t refused = 0;
  while (!put(kind, 999)) ++refused;
  EXPECT_EQ(refused, Shelf::kRefused);
}

TEST_F(ShelvesTest, GiveWhatIsAligned) {
  const Kind kind = Kind::of_run(PageGroup::brief, {40});
  earn(shelf_, 3 * kind.bytes());
  ASSERT_TRUE(put(kind, 0, 8));
  ASSERT_TRUE(put(kind, 1, 1024 + 2));
  ASSERT_TRUE(put(kind, 2, 1024));
  EXPECT_EQ(shelf_.take(kind, 128), address(2));
  EXPECT_EQ(shelf_.take(kind, 16), nullptr);
  EXPECT_EQ(shelf_.take(kind, 4), address(0));
  EXPECT_EQ(shelf_.take(kind, 4), nullptr);
  EXPECT_EQ(shelf_.take(kind, 1), address(1));
}

// One thread may free what another asks for.
TEST_F(ShelvesTest, AThreadThatFreesNothingTakesFromOthers) {
  constexpr size_t kOthers = 5;
  const Kind kind = Kind::of_slot(5);
  std::vector<Shelf*> others;
  for (size_t i = 0; i < kOthers; ++i) others.push_back(&shelves_->next());
  Shelf& full = *others[3];
  earn(full, 10 * kBytes);
  const auto fill = [&] {
    for (size_t i = 0; i < 10; ++i) shelves_->put(full, kind, address(i));
  };
  const auto taken = [&](size_t calls) {
    size_t n = 0;
    for (size_t i = 0; i < calls; ++i) n += shelves_->take(shelf_, kind) != nullptr;
    return n;
  };
  fill();
  EXPECT_EQ(taken(Shelf::kManyMisses + 1), 0u) << "not at once";
  EXPECT_EQ(taken(kOthers), 1u);
  EXPECT_EQ(taken(20), 9u) << "each time, from where there was something";
  fill();
  EXPECT_FALSE(put(kind, 77)) << "no room";
  EXPECT_EQ(taken(Shelf::kManyMisses), 0u) << "since it frees, too";
  EXPECT_GT(taken(2 * kOthers), 0u);
}

TEST_F(ShelvesTest, KnowWhatTheyHold) {
  earn(shelf_, 3 * kBytes);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(put(Kind::of_slot(5), i));
  EXPECT_TRUE(shelf_.holds(5, address(0)));
  EXPECT_TRUE(shelf_.holds(5, address(2)));
  EXPECT_FALSE(shelf_.holds(6, address(2)));
  EXPECT_FALSE(shelf_.holds(5, address(3)));
  EXPECT_EQ(shelves_->bytes(), 3 * kBytes);
}

TEST_F(ShelvesTest, DrainEachOnce) {
  Shelf& second = shelves_->next();
  for (Shelf* shelf : {&shelf_, &second}) earn(*shelf, 10 * kBlockSize);
  EXPECT_FALSE(shelves_->any());
  ASSERT_TRUE(put(Kind::of_slot(5), 0));
  ASSERT_TRUE(put(Kind::of_run(PageGroup::brief, {7}), 1, 1));
  ASSERT_TRUE(shelves_->put(second, Kind::of_slot(6), address(2)));
  EXPECT_TRUE(shelves_->any());
  std::multiset<void*> drained;
  const auto drain = [&] {
    shelves_->drain([&](Kind kind, void* what) {
      EXPECT_EQ(kind.is_run(), what == address(1));
      drained.insert(what);
    });
  };
  drain();
  drain();
  EXPECT_EQ(drained, (std::multiset<void*>{address(0), address(1), address(2)}));
  EXPECT_FALSE(shelves_->any());
  EXPECT_EQ(shelf_.take(Kind::of_slot(5)), nullptr);
}

// What a thread has belongs to it: each writes without more. Two of three threads share a shelf,
// all take from the other, and somebody drains both. Nothing is lost.
TEST_F(ShelvesTest, NothingIsInTwoHandsOrInNone) {
  constexpr size_t kThreads = 3, kEach = 4, kRounds = 20'000;
  struct Slot {
    size_t rounds = 0;
  };
  std::vector<Slot> slots(kThreads * kEach);
  Shelf* const of[] = {&shelf_, &shelves_->next()};
  for (Shelf* shelf : of) earn(*shelf, 6 * kBytes);
  const Kind kind = Kind::of_slot(5);
  std::atomic<size_t> running{kThreads}, rounds{0}, in_hands{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::vector<Slot*> mine;
      for (size_t i = 0; i < kEach; ++i) mine.push_back(&slots[t * kEach + i]);
      size_t counted = 0;
      const auto take = [&](void* what) {
        if (what == nullptr) return;
        auto* slot = static_cast<Slot*>(what);
        ++slot->rounds, ++counted;
        mine.push_back(slot);
      };
      for (size_t i = 0; i < kRounds; ++i) {
        if (!mine.empty()) {
          ++mine.back()->rounds, ++counted;
          if (shelves_->put(*of[t / 2], kind, mine.back())) mine.pop_back();
        }
        take(i % 4 == 0 ? of[1 - t / 2]->steal(kind, 1) : shelves_->take(*of[t / 2], kind));
      }
      rounds += counted;
      in_hands += mine.size();
      --running;
    });
  const auto drain = [&] {
    size_t n = 0;
    shelves_->drain([&](Kind, void* what) {
      ++static_cast<Slot*>(what)->rounds, ++rounds, ++n;
      if (running != 0 && shelves_->put(shelf_, kind, what)) --n;
    });
    return n;
  };
  size_t drained = 0;
  while (running != 0)
    if (shelves_->any()) drained += drain();
  for (std::thread& thread : threads) thread.join();
  while (shelves_->any()) drained += drain();
  size_t seen = 0;
  for (const Slot& slot : slots) seen += slot.rounds;
  EXPECT_EQ(seen, rounds.load());
  EXPECT_EQ(in_hands + drained, slots.size());
}

}  // namespace
}  // namespace llamalloc
