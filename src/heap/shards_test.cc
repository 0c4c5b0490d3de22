// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "heap/test_heap.h"
#include "heap/test_thread.h"

namespace llamalloc {
namespace {

class ShardsTest : public OnFakeMemory {
 protected:
  using Slots = std::vector<void*>;

  Slots take(int bin, size_t n, int shard) {
    Slots slots(n);
    for (void*& slot : slots) slot = heap_.take_one(bin, shard);
    return slots;
  }
  void give(int bin, const Slots& slots) {
    for (void* slot : slots) EXPECT_EQ(heap_.give(bin, &slot, 1), nullptr);
  }
  // All but every `each`-th, which stay.
  Slots thin_out(int bin, const Slots& slots, size_t each) {
    Slots left;
    for (size_t i = 0; i < slots.size(); ++i)
      i % each == 0 ? left.push_back(slots[i]) : give(bin, {slots[i]});
    return left;
  }
  size_t spans(int bin) const { return tables_->bins[bin].spans; }
  size_t pages() { return heap_.count(PageGroup::unknown).pages; }
  int shard_of(void* slot) const { return heap_.find(slot)->home_now().shard; }
  size_t held_locks() {
    size_t held = 0;
    heap_.for_each_lock([&](Lock& lock) { held += lock.is_held(); });
    return held;
  }

  const int bin_ = size_class_of(1024);
  const size_t per_span_ = shape_of_bin(bin_).slots;
};

TEST_F(ShardsTest, ASpanBelongsToWhoOpenedItAndWhatIsFreedReturnsThere) {
  const Slots first = take(bin_, per_span_, 1), second = take(bin_, per_span_, 2);
  for (void* slot : first) EXPECT_EQ(shard_of(slot), 1);
  for (void* slot : second) EXPECT_EQ(shard_of(slot), 2);
  give(bin_, {first[3], second[5]});
  EXPECT_EQ(take(bin_, 1, 1), Slots{first[3]});
  EXPECT_EQ(take(bin_, 1, 2), Slots{second[5]});
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(ShardsTest, WhatWaitsInADepotGoesToTheShardItCameFrom) {
  const Slots slots = take(bin_, 2 * per_span_, 3);
  EXPECT_EQ(heap_.deposit(bin_, slots.data(), 10), nullptr);
  EXPECT_EQ(tables_->bins[bin_].in_depot(), 0u);
  EXPECT_EQ(tables_->shards.at(3, bin_).in_depot(), 10u);
  EXPECT_TRUE(heap_.is_free(bin_, slots[9]));
  EXPECT_EQ(take(bin_, 1, 3), Slots{slots[9]});
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  EXPECT_EQ(heap_.depot_bytes(), 0u);
  EXPECT_EQ(heap_.quick_count(PageGroup::unknown).allocated, (2 * per_span_ - 9) * 1024);
}

// The heap of a process that was not busy so far has holes: they are filled first.
TEST_F(ShardsTest, HolesOfTheBinAreFilledFirst) {
  const Slots left = thin_out(bin_, take(bin_, 50 * per_span_, 0), 4);
  ASSERT_EQ(spans(bin_), 50u);
  const Slots filled = take(bin_, 50 * per_span_ - left.size(), 1);
  EXPECT_EQ(spans(bin_), 50u);
  EXPECT_TRUE(std::is_sorted(filled.begin(), filled.end()));
  EXPECT_TRUE(heap_.is_consistent());
}

// And before the heap grows those of other shards.
TEST_F(ShardsTest, NoPageIsTakenWhileAShardHasHoles) {
  const size_t page = kHugePageSize / 1024;
  thin_out(bin_, take(bin_, page, 1), 4);
  const size_t acquired = heap_.pages().counts().acquired;
  for (const int shard : {0, 2, 1}) take(bin_, page / 5, shard);
  EXPECT_EQ(heap_.pages().counts().acquired, acquired);
  EXPECT_TRUE(heap_.is_consistent());
}

// Where there is no other memory, all free slots of all shards serve.
TEST_F(ShardsTest, NoSlotIsOutOfReach) {
  std::set<void*> taken;
  for (int shard = 1; shard <= BinShards::kShards; ++shard)
    taken.insert(heap_.take_one(bin_, shard));
  heap_.pages().limit_growth(1);
  Slots filler;
  while (void* slot = heap_.take_one(size_class_of(8000), 0)) filler.push_back(slot);
  while (void* slot = heap_.take_one(bin_, 0)) taken.insert(slot);
  EXPECT_EQ(taken.size(), spans(bin_) * per_span_);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(ShardsTest, SparesStayUntilTheWorkersStep) {
  const size_t n = 20 * per_span_;
  give(bin_, take(bin_, n, 1));
  EXPECT_EQ(spans(bin_), 20u);
  EXPECT_EQ(pages(), 1u);
  EXPECT_TRUE(heap_.is_consistent());
  const size_t acquired = heap_.pages().counts().acquired;
  for (int round = 0; round < 10; ++round) give(bin_, take(bin_, n, 1));
  EXPECT_EQ(spans(bin_), 20u);
  EXPECT_EQ(heap_.pages().counts().acquired, acquired);
  EXPECT_TRUE(heap_.has_empty_pages());
  heap_.release(Nanos::max(), 0);
  EXPECT_EQ(spans(bin_), 0u);
  EXPECT_EQ(pages(), 0u);
  EXPECT_FALSE(heap_.has_empty_pages());
  give(bin_, take(bin_, n, 0));
  EXPECT_EQ(spans(bin_), 0u) << "the bin itself keeps none";
}

TEST_F(ShardsTest, SparesAreFewerEachSecondThatNothingEarnsThem) {
  for (int second = 0; second < 12; ++second) {
    heap_.drain_depots();
    take(bin_, 1, 1);
  }
  give(bin_, take(bin_, 100 * per_span_, 1));
  EXPECT_GT(spans(bin_), 90u);
  const auto& may_spare = tables_->shards.at(1, bin_).may_spare;
  EXPECT_GT(may_spare, 90);
  for (int second = 0; second < 8; ++second) heap_.drain_depots();
  EXPECT_EQ(may_spare, 0);
}

// The shard takes and the bin gives back: each sum is off, all together are not.
TEST_F(ShardsTest, WhatIsTakenIsCountedWhereverItIsGivenBack) {
  const Slots slots = take(bin_, 10 * per_span_, 1), more = take(bin_, 5, 2);
  heap_.drain_depots();
  EXPECT_EQ(tables_->bins[bin_].taken, slots.size() + more.size());
  const Slots left = thin_out(bin_, slots, 2);
  EXPECT_EQ(heap_.live_bytes(), (left.size() + more.size()) * 1024);
  EXPECT_EQ(heap_.quick_count(PageGroup::unknown).allocated, heap_.live_bytes());
  for (int second = 0; second < 2; ++second) heap_.drain_depots();
  EXPECT_EQ(tables_->bins[bin_].taken, left.size() + more.size());
}

TEST_F(ShardsTest, OneThatClosesKeepsNoRoomForItsDepot) {
  const Slots slots = take(bin_, 1, 1);
  EXPECT_EQ(heap_.deposit(bin_, slots.data(), 1), nullptr);
  EXPECT_EQ(take(bin_, 1, 1), slots);
  give(bin_, slots);
  for (int second = 0; second < 3; ++second) heap_.drain_depots();
  EXPECT_FALSE(tables_->shards.is_open(1, bin_));
  heap_.release(Nanos::max(), 0);
  EXPECT_FALSE(heap_.has_empty_pages());
}

// The worker looks whether any is open while threads open some.
TEST_F(ShardsTest, WhatIsOpenIsNeverForgotten) {
  BinShards& shards = tables_->shards;
  for (int round = 0; round < 2000; ++round) {
    std::atomic<bool> begun{false};
    std::thread opening([&] {
      begun = true;
      shards.open(1, bin_);
    });
    while (!begun) std::this_thread::yield();
    shards.look_for_any();
    opening.join();
    ASSERT_TRUE(shards.any()) << round;
    shards.close(1, bin_);
    shards.look_for_any();
    ASSERT_FALSE(shards.any());
  }
}

// A load of another size: what is spared makes room before a page is taken from the system.
TEST_F(ShardsTest, SparesAddToNoPeak) {
  const int other = size_class_of(3000);
  for (int shard = 1; shard < 4; ++shard) {
    const size_t n = kHugePageSize / 1024;
    give(bin_, take(bin_, n, shard));
  }
  const size_t before = heap_.pages().counts().acquired;
  ASSERT_GE(spans(bin_), 100u);
  take(other, kHugePageSize / 3200, 0);
  EXPECT_EQ(heap_.pages().counts().acquired, before);
  EXPECT_EQ(spans(bin_), 0u);
}

TEST_F(ShardsTest, AShardThatNobodyUsesGivesItsSpansToTheBin) {
  const Slots slots = take(bin_, 10 * per_span_, 4), stay = thin_out(bin_, slots, per_span_ / 2);
  heap_.drain_depots();
  EXPECT_EQ(shard_of(stay[0]), 4) << "it was used in that second";
  heap_.drain_depots();
  EXPECT_EQ(shard_of(stay[0]), 0);
  EXPECT_FALSE(tables_->shards.any());
  EXPECT_EQ(tables_->bins[bin_].taken, stay.size());
  EXPECT_TRUE(heap_.is_consistent());
  give(bin_, stay);
  EXPECT_EQ(pages(), 0u);
}

// A full span is in no list; it is found when something of it is freed.
TEST_F(ShardsTest, AShardStaysOpenWhileItHasFullSpans) {
  const Slots slots = take(bin_, 3 * per_span_, 4);
  for (int second = 0; second < 3; ++second) heap_.drain_depots();
  EXPECT_EQ(shard_of(slots[0]), 4);
  EXPECT_TRUE(tables_->shards.is_open(4, bin_));
  thin_out(bin_, slots, 2);
  heap_.drain_depots();
  EXPECT_EQ(shard_of(slots[0]), 0);
  EXPECT_FALSE(tables_->shards.is_open(4, bin_));
  EXPECT_EQ(heap_.live_bytes() / 1024, (slots.size() + 1) / 2);
}

TEST_F(ShardsTest, AForkHoldsTheLocksOfOpenShardsToo) {
  heap_.lock_all();
  const size_t without = held_locks();
  heap_.unlock_all();
  const Slots slots = take(bin_, 3, 1);
  take(size_class_of(64), 3, 2);
  heap_.lock_all();
  EXPECT_EQ(held_locks(), without + 2);
  heap_.unlock_all();
  EXPECT_EQ(held_locks(), 0u);
  // In the child: one that somebody who found it closed held for a moment.
  std::thread([&] { tables_->shards.at(1, 5).lock.lock(); }).join();
  heap_.lock_all();
  heap_.reset_locks_after_fork();
  EXPECT_EQ(held_locks(), 0u);
  EXPECT_FALSE(tables_->shards.at(1, 5).lock.is_held());
#ifdef LLAMALLOC_CHECK_BUILD
  Lock::this_thread_holds_none();
#endif
  EXPECT_EQ(take(5, 1, 1).size(), 1u);
}

// While a fork holds all locks, its handlers may allocate: they open no shard.
TEST_F(ShardsTest, NoneIsOpenedWhileAForkHoldsAllLocks) {
  heap_.lock_all();
  Lock::this_thread_holds_all(true);
  EXPECT_EQ(shard_of(take(bin_, 1, 1)[0]), 0);
  Lock::this_thread_holds_all(false);
  heap_.unlock_all();
  EXPECT_EQ(held_locks(), 0u);
}

TEST_F(ShardsTest, AThreadThatWaitsOftenUsesThatOfItsProcessor) {
  TestThread thread(heap_, arena_, 4);
  EXPECT_EQ(shard_of(thread.allocate(bin_)), 0);
  thread.cache().waits = kContended;
  std::set<int> shards;
  for (size_t i = 0; i < 8 * per_span_; ++i) shards.insert(shard_of(thread.allocate(bin_)));
  EXPECT_GT(*shards.rbegin(), 0);
  thread.flush();
  thread.cache().start_over();
  EXPECT_FALSE(thread.cache().is_contended()) << "until it waits again";
}

TEST_F(ShardsTest, WaitsAreCountedWhereverTheyHappen) {
  TestThread thread(heap_, arena_, 4);
  thread.allocate(bin_);
  waits_of_this_thread += kContended;  // as Lock does
  thread.allocate(size_class_of(64));
  EXPECT_TRUE(thread.cache().is_contended());
}

}  // namespace
}  // namespace llamalloc
