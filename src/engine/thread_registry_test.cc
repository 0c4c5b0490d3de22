// SPDX-License-Identifier: Apache-2.0
#include "engine/thread_registry.h"

#include <gtest/gtest.h>

#include "engine/fake_world.h"
#include "heap/test_heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

ThreadCache empty_cache;

// A thread may sleep through any number of calls; the next time it looks it must find one.
TEST(ThreadRegistry, CallsDoNotAddUpWhileAThreadSleeps) {
  FakePages system;
  MetadataArena arena(system);
  ThreadRegistry registry(empty_cache);
  ThreadCache* cache = registry.adopt(arena);
  cache->countdown = 1000;
  for (int second = 0; second < 100; ++second) {
    registry.request_housekeeping(Nanos::seconds(second));
    ASSERT_LT(cache->countdown.load(), 0) << second;
  }
  EXPECT_EQ(cache->countdown.load() + kCallIn, 1000);
  EXPECT_TRUE(cache->housekeeping_due.load());
}

// What a thread does not use of its cache has no memory.
TEST(ThreadRegistry, ANewCacheIsUntouchedButForItsBeginning) {
  FakePages system;
  MetadataArena arena(system);
  ThreadRegistry registry(empty_cache);
  ThreadCache* cache = registry.adopt(arena);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(cache) % kSmallPage, 0u);
  EXPECT_LE(offsetof(ThreadCache, magazines) + offsetof(Magazines, bins) +
                kSizeClasses * sizeof(Magazine),
            kSmallPage)
      << "the magazines of a group lie in the first page";
  EXPECT_EQ(system.resident(cache, sizeof(ThreadCache)), kSmallPage);
}

class Retired : public OnFakeMemory {
 protected:
  ThreadRegistry registry_{empty_cache};
};

TEST_F(Retired, AFreeCacheIsFoundAmongThoseInUse) {
  ThreadCache* first = registry_.adopt(arena_);
  ThreadCache* second = registry_.adopt(arena_);
  EXPECT_NE(first, second);
  registry_.retire(first, heap_);
  EXPECT_EQ(registry_.adopt(arena_), first);
  EXPECT_NE(registry_.adopt(arena_), second);
  registry_.forget_others(second);
  EXPECT_NE(registry_.adopt(arena_), second);
}

// Its memory is still in the processor's cache.
TEST_F(Retired, TheCacheOfTheThreadThatEndedLastIsTakenFirst) {
  ThreadCache* caches[3];
  for (ThreadCache*& cache : caches) cache = registry_.adopt(arena_);
  const size_t made = arena_.used_bytes();
  for (const int i : {2, 0, 1}) registry_.retire(caches[i], heap_);
  for (const int i : {1, 0, 2}) EXPECT_EQ(registry_.adopt(arena_), caches[i]);
  EXPECT_EQ(arena_.used_bytes(), made);
}

class Idle : public testing::Test {
 protected:
  ThreadCache* adopt(uint32_t id) {
    ThreadCache* cache = registry_.adopt(arena_);
    cache->thread_id = id;
    slots_[id].cache = cache;
    registry_.open_slot(cache, &slots_[id]);
    return cache;
  }
  size_t claim(int before, int now) {
    return registry_.claim_idle(world_, Nanos::seconds(before), Nanos::seconds(now), claimed_, 2,
                                &more_);
  }
  ThreadCache* claimed_one() {
    ThreadCache* one = adopt(1);
    registry_.request_housekeeping(Nanos::seconds(1));
    EXPECT_EQ(claim(1, 2), 1u);
    return one;
  }

  FakePages system_;
  FakeWorld world_;
  MetadataArena arena_{system_};
  ThreadRegistry registry_{empty_cache};
  CacheSlot slots_[6]{CacheSlot(&empty_cache), CacheSlot(&empty_cache), CacheSlot(&empty_cache),
                      CacheSlot(&empty_cache), CacheSlot(&empty_cache), CacheSlot(&empty_cache)};
  ThreadCache* claimed_[2];
  bool more_ = false;
};

TEST_F(Idle, AreThreadsThatDidNotAnswer) {
  ThreadCache* one = adopt(1);
  EXPECT_EQ(claim(9, 9), 0u);
  registry_.request_housekeeping(Nanos::seconds(5));
  EXPECT_EQ(claim(4, 5), 0u) << "not asked long enough ago";
  EXPECT_TRUE(more_);
  EXPECT_EQ(slots_[1].cache.load(), one);
  ASSERT_EQ(claim(5, 6), 1u);
  EXPECT_EQ(claimed_[0], one);
  EXPECT_EQ(slots_[1].cache.load(), &empty_cache);
  EXPECT_EQ(one->custody.load(), Custody::claimed);
  EXPECT_EQ(claim(5, 6), 0u) << "claimed already";
}

TEST_F(Idle, AreNotThoseWhoAnsweredMeanwhile) {
  ThreadCache* one = adopt(1);
  registry_.request_housekeeping(Nanos::seconds(5));
  one->housekeeping_due = false;
  EXPECT_EQ(claim(5, 6), 0u);
  EXPECT_FALSE(more_);
}

TEST_F(Idle, AreNotThoseThatVanished) {
  ThreadCache* one = adopt(1);
  ThreadCache* two = adopt(2);
  registry_.request_housekeeping(Nanos::seconds(1));
  world_.vanished = 1;
  ASSERT_EQ(claim(1, 2), 1u);
  EXPECT_EQ(claimed_[0], two);
  EXPECT_EQ(slots_[1].cache.load(), one) << "not written to";
  EXPECT_EQ(one->slot, nullptr) << "nor ever asked about again";
  EXPECT_EQ(one->custody.load(), Custody::own);
}

TEST_F(Idle, AreNotThoseThatVanishAfterTheClaim) {
  ThreadCache* one = claimed_one();
  world_.vanished = 1;
  one->slot = reinterpret_cast<CacheSlot*>(16);  // unmapped with its stack
  EXPECT_FALSE(registry_.confirm_claim(world_, one, true));
  EXPECT_EQ(one->slot, nullptr);
  EXPECT_EQ(one->custody.load(), Custody::own);
}

TEST_F(Idle, AreTheirOwnAgainInAChildThatTheyFork) {
  ThreadCache* one = claimed_one();
  registry_.forget_others(one);
  EXPECT_EQ(one->custody.load(), Custody::own);
}

TEST_F(Idle, AreFoundInTurn) {
  for (uint32_t id = 1; id <= 5; ++id) adopt(id);
  registry_.request_housekeeping(Nanos::seconds(1));
  int seen[8] = {};
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(claim(2, 2), 2u);
    EXPECT_TRUE(more_);
    for (ThreadCache* cache : claimed_) {
      ++seen[cache->thread_id];
      EXPECT_FALSE(registry_.confirm_claim(world_, cache, false));
    }
  }
  for (uint32_t id = 1; id <= 5; ++id) EXPECT_EQ(seen[id], 2) << id;
}

TEST_F(Idle, AreTakenOnlyWhileTheyDoNotUseTheirCache) {
  ThreadCache* one = claimed_one();
  slots_[1].in_call = 1;
  EXPECT_FALSE(registry_.confirm_claim(world_, one, true));
  EXPECT_EQ(one->custody.load(), Custody::own);
  EXPECT_EQ(slots_[1].cache.load(), &empty_cache) << "its next call takes it back";

  slots_[1].in_call = 0;
  slots_[1].depth = 1;
  ASSERT_EQ(claim(1, 2), 1u);
  EXPECT_FALSE(registry_.confirm_claim(world_, one, true)) << "in a slow path";

  slots_[1].depth = 0;
  ASSERT_EQ(claim(1, 2), 1u);
  EXPECT_TRUE(registry_.confirm_claim(world_, one, true));
}

TEST_F(Idle, AreNotTakenWithoutABarrier) {
  EXPECT_FALSE(registry_.confirm_claim(world_, claimed_one(), false));
}

// It had asked for the custody before the claim, and wrote to its slot after it.
TEST_F(Idle, AreNotTakenIfTheyTookTheirCacheBackMeanwhile) {
  ThreadCache* one = claimed_one();
  slots_[1].cache = one;
  EXPECT_FALSE(registry_.confirm_claim(world_, one, true));
}

TEST_F(Idle, AreEmptyUntilTheyComeBack) {
  ThreadCache* one = claimed_one();
  ASSERT_TRUE(registry_.confirm_claim(world_, one, true));
  EXPECT_TRUE(registry_.end_claim(one, Custody::emptied));
  EXPECT_EQ(claim(1, 2), 0u) << "nothing is in it";
  EXPECT_FALSE(more_);
}

TEST_F(Idle, LeaveTheirCacheToTheWorkerIfTheyEndWhileItIsClaimed) {
  ThreadCache* one = claimed_one();
  EXPECT_FALSE(registry_.close_slot(one));
  EXPECT_TRUE(registry_.confirm_claim(world_, one, true)) << "nobody else has it";
  EXPECT_FALSE(registry_.end_claim(one, Custody::emptied)) << "the caller retires it";
  EXPECT_EQ(one->custody.load(), Custody::own) << "of the next thread";
  EXPECT_TRUE(registry_.end_claim(one, Custody::own));
}

TEST_F(Idle, TakeTheirCacheBackUnlessItIsClaimed) {
  ThreadCache* one = claimed_one();
  EXPECT_FALSE(registry_.take_back(one, &slots_[1]));
  EXPECT_EQ(slots_[1].cache.load(), &empty_cache);
  registry_.end_claim(one, Custody::emptied);
  EXPECT_TRUE(registry_.take_back(one, &slots_[1]));
  EXPECT_EQ(slots_[1].cache.load(), one);
  EXPECT_EQ(one->custody.load(), Custody::own);
}

TEST_F(Idle, EndAsOthersWhenTheirCacheWasEmptied) {
  ThreadCache* one = claimed_one();
  registry_.end_claim(one, Custody::emptied);
  EXPECT_TRUE(registry_.close_slot(one));
  EXPECT_EQ(one->custody.load(), Custody::own);
}

}  // namespace
}  // namespace llamalloc
