// SPDX-License-Identifier: Apache-2.0
// A thread's cache from its first slow path to its end, and the frees that go through it.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "engine/test_engine.h"

namespace llamalloc {
namespace {

class OwnCacheTest : public testing::Test {
 protected:
  ThreadCache* own() { return engine_.own_cache(slot_, adopted_); }
  bool free(void* p) {
    return engine_.free(slot_, adopted_, p, engine_.heap.find(p), kUnknownSize);
  }
  // As the worker does for an idle thread.
  void claim() {
    engine_.collect_caches(made_.pages.time);
    bool more = false;
    ThreadCache* claimed = nullptr;
    const Nanos now = made_.pages.time;
    ASSERT_EQ(engine_.threads.claim_idle(made_.world, now, now, &claimed, 1, &more), 1u);
    ASSERT_TRUE(engine_.threads.confirm_claim(made_.world, claimed, true));
  }

  void pass(Nanos time) {
    for (const Nanos end = made_.pages.time + time; made_.pages.time < end;) {
      made_.pages.time = made_.pages.time + Nanos::millis(100);
      engine_.step(made_.pages.time, false);
    }
  }

  TestEngine<> made_;
  Engine& engine_ = *made_.engine;
  CacheSlot slot_{made_.cache.get()};
  ThreadCache* adopted_ = nullptr;
};

TEST_F(OwnCacheTest, IsAdoptedOnceAndGivenBackAtTheEnd) {
  ThreadCache* const cache = own();
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(own(), cache);
  EXPECT_EQ(adopted_, cache);
  EXPECT_EQ(cache->thread_id, 1u);
  EXPECT_EQ(cache->busy, 0u);
  EXPECT_EQ(cache->slot, &slot_);
  void* objects[20];
  for (void*& p : objects) p = engine_.allocate(own(), {.size = 100});
  for (void* p : objects) free(p);
  EXPECT_GT(cache->magazines.cached_bytes(), 0u);
  cache->magazines.budget = 4 * kFirstBudget;
  engine_.end_thread(slot_, adopted_);
  EXPECT_EQ(adopted_, nullptr);
  EXPECT_EQ(slot_.cache, made_.cache.get());
  EXPECT_EQ(cache->magazines.cached_bytes(), 0u);
  EXPECT_EQ(engine_.threads.in_use(), 0u);
  EXPECT_EQ(own(), cache) << "reused";
  EXPECT_EQ(cache->magazines.budget, 2 * kFirstBudget) << "half of what the one before needed";
  EXPECT_EQ(cache->thread_id, 2u);
}

TEST_F(OwnCacheTest, WhoIsPastItsExitHandlersAdoptsNone) {
  made_.world.adopts = false;
  EXPECT_EQ(own(), nullptr);
  EXPECT_EQ(engine_.threads.in_use(), 0u);
  engine_.end_thread(slot_, adopted_);  // of nothing
}

TEST_F(OwnCacheTest, WhoFreesWithoutOneAdoptsNone) {
  void* const p = engine_.allocate(nullptr, {.size = 100});
  errno = 7;
  engine_.free_without_cache(p, engine_.heap.find(p), kUnknownSize);
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(engine_.threads.in_use(), 0u);
  EXPECT_EQ(engine_.allocate(nullptr, {.size = 100}), p) << "freed";
}

TEST_F(OwnCacheTest, TheWorkerLeavesAloneWhoseEndItWouldNotHear) {
  made_.world.tells_end = false;
  EXPECT_EQ(own()->slot, nullptr);
}

// As it is for a thread that begins before the library does.
TEST_F(OwnCacheTest, AThreadIsAnnouncedWhenItIsCalledAfterItsEndCanBeTold) {
  made_.world.tells_end = false;
  ThreadCache* const cache = own();
  made_.world.tells_end = true;
  engine_.threads.wake_all();
  free(engine_.allocate(own(), {.size = 100}));
  EXPECT_EQ(cache->slot, &slot_);
  EXPECT_EQ(cache->busy, 0u);
  claim();
}

TEST_F(OwnCacheTest, WhatIsClaimedIsNotUsedAndThenTakenBack) {
  ThreadCache* const cache = own();
  claim();
  EXPECT_EQ(own(), nullptr);
  EXPECT_TRUE(engine_.threads.end_claim(cache, Custody::emptied));
  EXPECT_EQ(own(), cache);
}

// All objects died at once, and the thread went idle: its cache pins the last pages.
TEST_F(OwnCacheTest, AnIdleCacheIsEmptiedInAHeapThatHasShrunk) {
  constexpr size_t kObjects = 20000;
  std::vector<void*> objects(kObjects);
  for (size_t i = 0; i < kObjects; ++i)
    objects[i] = engine_.allocate(own(), {.size = 16 + i % 2000});
  for (size_t i = kObjects; i-- > 0;) free(objects[i]);  // the lowest last
  ThreadCache* const cache = own();
  ASSERT_GT(cache->magazines.cached_bytes(), 0u);
  ASSERT_LT(engine_.heap.pages().in_use(), kFewPages);
  pass(Nanos::seconds(8));
  EXPECT_EQ(cache->magazines.cached_bytes(), 0u);
  EXPECT_EQ(engine_.heap.pages().demand().level().backed, 0u);
}

// To prepare the first barrier takes a while.
TEST_F(OwnCacheTest, AFilterThatComesMeanwhileIsHeeded) {
  std::vector<void*> objects(20000);
  for (void*& p : objects) p = engine_.allocate(own(), {.size = 1000});
  for (void* p : objects) free(p);
  ThreadCache* const cache = own();
  made_.world.filters_meanwhile = true;
  pass(Nanos::seconds(8));
  EXPECT_EQ(made_.world.prepared, 1);
  EXPECT_EQ(made_.world.barriers, 0);
  EXPECT_GT(cache->magazines.cached_bytes(), 0u);
  EXPECT_EQ(own(), cache) << "it is its thread's again";
}

// The worker is wanted where it would empty caches, as in a child of a process that was large.
TEST_F(OwnCacheTest, AHeapThatHasShrunkWantsIdleCachesEmptied) {
  std::vector<void*> objects(20000);
  for (void*& p : objects) p = engine_.allocate(own(), {.size = 1000});
  for (void* p : objects) free(p);
  pass(Nanos::seconds(8));
  void* const p = engine_.allocate(own(), {.size = 1000});
  ASSERT_LT(engine_.heap.pages().in_use(), kFewPages);
  ASSERT_FALSE(engine_.heap.has_empty_pages());
  made_.world.wanted_for_idle = 0;
  free(p);
  EXPECT_EQ(made_.world.wanted_for_idle, 1);
}

TEST_F(OwnCacheTest, TheIdleCacheOfASmallHeapStays) {
  free(engine_.allocate(own(), {.size = 100}));
  pass(Nanos::seconds(8));
  EXPECT_GT(own()->magazines.cached_bytes(), 0u);
  EXPECT_EQ(made_.world.wanted_for_idle, 0);
}

TEST_F(OwnCacheTest, AThreadThatEndsWhileClaimedLeavesItsCacheToTheWorker) {
  ThreadCache* const cache = own();
  claim();
  engine_.end_thread(slot_, adopted_);
  EXPECT_EQ(engine_.threads.in_use(), 1u);
  EXPECT_FALSE(engine_.threads.end_claim(cache, Custody::emptied));
}

TEST_F(OwnCacheTest, AFreeKeepsALargeObjectOnlyWhereTheThreadHasItsCache) {
  engine_.has_worker = true;
  void* p = engine_.allocate(nullptr, {.size = kSmallMax + 1});
  EXPECT_FALSE(free(p)) << "adopts a cache, too late for this object";
  p = engine_.allocate(own(), {.size = kSmallMax + 1});
  EXPECT_TRUE(free(p));
  p = engine_.allocate(own(), {.size = kSmallMax + 1});
  claim();
  EXPECT_FALSE(free(p));
}

// Else it would stay until something else wakes the worker.
TEST_F(OwnCacheTest, WhatGoesOnAShelfWakesTheWorker) {
  engine_.has_worker = true;
  const Request request{.size = kRunMax};
  Span* const stays = engine_.heap.find(engine_.allocate(own(), request));
  for (size_t i = 0; i < 3 * kRunMax / Shelf::kEarned; ++i) {
    void* const runs[] = {engine_.allocate(own(), request), engine_.allocate(own(), request)};
    for (void* run : runs) ASSERT_TRUE(free(run));
  }
  ASSERT_TRUE(engine_.heap.has_empty_pages());
  pass(Nanos::seconds(20));
  EXPECT_FALSE(engine_.heap.has_empty_pages()) << "it went to the heap, and from there";
  ASSERT_TRUE(engine_.is_dozing());
  for (size_t i = 0; i < 3 * kRunMax / Shelf::kEarned; ++i) {
    const int before = made_.world.wanted;
    void* const runs[] = {engine_.allocate(own(), request), engine_.allocate(own(), request)};
    made_.world.wanted = before;
    for (void* run : runs) {
      const int wanted = made_.world.wanted;
      const bool done = free(run);
      ASSERT_EQ(done, made_.world.wanted == wanted) << "else the caller has to start one";
    }
  }
  EXPECT_TRUE(engine_.heap.has_empty_pages());
  EXPECT_GT(made_.world.wanted, 0);
  free(stays->base);
}

TEST_F(OwnCacheTest, AFreeLeavesErrnoAlone) {
  class Loud : public FakeWorld {
   public:
    bool may_adopt() override { return errno = EIO, true; }
  };
  TestEngine<Loud> loud;
  CacheSlot slot(loud.cache.get());
  void* p = loud.engine->allocate(nullptr, {.size = 100});
  errno = 7;
  EXPECT_FALSE(loud.engine->free(slot, adopted_, p, loud.engine->heap.find(p), kUnknownSize));
  EXPECT_EQ(errno, 7);
  EXPECT_NE(adopted_, nullptr);
}

TEST_F(OwnCacheTest, AResizeMovesOnlyWhatDoesNotFit) {
  const auto resize = [&](void* p, size_t size, size_t* moved) {
    *moved = 0;
    return engine_.resize(p, engine_.heap.find(p), size, [&](size_t have) -> void* {
      *moved = have;
      return nullptr;
    });
  };
  void* p = engine_.allocate(own(), {.size = 1000});
  size_t moved = 0;
  EXPECT_EQ(resize(p, 900, &moved), p);
  EXPECT_EQ(moved, 0u);
  EXPECT_EQ(resize(p, 5000, &moved), nullptr);
  EXPECT_EQ(moved, engine_.heap.find(p)->object_size());
  // Hardened: every other size moves, and what was asked for is copied.
  ASSERT_TRUE(engine_.hardening.start(engine_.arena, 5));
  p = engine_.allocate(own(), {.size = 1000});
  EXPECT_EQ(resize(p, 1000, &moved), p);
  EXPECT_EQ(resize(p, 999, &moved), nullptr);
  EXPECT_EQ(moved, 1000u);
}

// After a peak few objects are alive, and new ones take their place: all the time, and one by one.
TEST_F(OwnCacheTest, AtLowLoadWhatComesAndGoesLeavesThePagesOfThePeak) {
  constexpr size_t kObjects = 1 << 20, kAlive = 1000;
  std::vector<void*> peak(kObjects), alive;
  for (void*& p : peak) p = engine_.allocate(own(), {.size = 64});
  for (size_t i = 0; i < kObjects; ++i) {
    if (i % (kObjects / kAlive) == 0)
      alive.push_back(peak[i]);
    else
      free(peak[i]);
  }
  const size_t pages = engine_.heap.pages().in_use();
  EXPECT_GE(pages, kObjects * 64 / kHugePageSize);
  for (int tenth = 0; tenth < 60; ++tenth) {
    for (void*& p : alive) {
      free(p);
      p = engine_.allocate(own(), {.size = 64});
    }
    pass(Nanos::millis(100));
  }
  EXPECT_LT(engine_.heap.pages().in_use(), 6u) << "of " << pages;
  EXPECT_GT(engine_.counters.get(Stat::caches_bypassed), 0u);
  for (void* p : alive) free(p);
}

}  // namespace
}  // namespace llamalloc
