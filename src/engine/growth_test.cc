// SPDX-License-Identifier: Apache-2.0
// What the thread does that makes the heap grow: samples begin (Engine::sample_from), and what it
// caches makes room.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_world.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr size_t kLeast = size_t{16} << 20;
constexpr uint64_t kInterval = 64 << 10;

class GrowthTest : public testing::Test {
 protected:
  GrowthTest() {
    cache_->magazines.initialise();
    engine_->start_countdown(cache_.get());
  }
  void allocate(size_t bytes) {
    for (size_t done = 0; done < bytes; done += 4096)
      ASSERT_NE(engine_->allocate(cache_.get(), {.size = 4096, .site = {0x1000, 0}}), nullptr);
  }
  // As a thread that is called does.
  void answer() {
    cache_->countdown = -1;
    engine_->allocate(cache_.get(), {.size = 16, .site = {0x1000, 0}});
  }

  // Objects freed so that what is still cached lies everywhere; of each kept_of one stays.
  void scatter(size_t bytes, size_t kept_of, size_t size = 208) {
    std::vector<void*> slots(bytes / size);
    for (void*& slot : slots)
      slot = engine_->allocate(cache_.get(), {.size = size, .site = {0x1000, 0}});
    for (size_t i = 0; i < slots.size(); ++i)
      if (i % kept_of != 0) free(slots[i * kStride % slots.size()]);
  }
  void free(void* p) { engine_->deallocate(cache_.get(), p, engine_->heap.find(p), kUnknownSize); }
  // In objects that have mappings.
  void grow(size_t bytes) {
    for (size_t done = 0; done < bytes; done += kMapped)
      ASSERT_NE(engine_->allocate(cache_.get(), {.size = kMapped, .site = {0x1000, 0}}), nullptr);
  }

  static constexpr size_t kStride = 7919;
  static constexpr size_t kTurn = size_t{90} << 20, kMapped = size_t{9} << 20;
  FakePages pages_;
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  std::unique_ptr<PredictionCache> predictions_ = std::make_unique<PredictionCache>();
  std::unique_ptr<ThreadCache> cache_ = std::make_unique<ThreadCache>();
  FakeWorld world_;
  std::unique_ptr<Engine> engine_ =
      std::make_unique<Engine>(pages_, *tables_, *predictions_, *cache_, world_);
};

TEST_F(GrowthTest, SamplesBeginWhenTheHeapHoldsEnough) {
  engine_->sample_from(kLeast, kInterval);
  answer();
  allocate(kLeast / 2);
  EXPECT_FALSE(engine_->profiler.on());
  allocate(kLeast / 2 + Engine::kLookAtGrowth + kHugePageSize);
  EXPECT_TRUE(engine_->profiler.on());
  EXPECT_EQ(engine_->profiler.interval(), kInterval);
  EXPECT_GE(world_.wanted, 1) << "there is learning to do";
  allocate(64 * kInterval);
  EXPECT_GT(engine_->profiler.samples(), 16u);
}

TEST_F(GrowthTest, WhatStaysSmallIsNotSampled) {
  engine_->sample_from(kLeast, kInterval);
  answer();
  for (size_t done = 0; done < 4 * kLeast; done += 4096) {
    void* p = engine_->allocate(cache_.get(), {.size = 4096, .site = {0x1000, 0}});
    engine_->deallocate(cache_.get(), p, engine_->heap.find(p), kUnknownSize);
  }
  EXPECT_FALSE(engine_->profiler.on());
}

TEST_F(GrowthTest, WhatTheThreadCachesDoesNotKeepPagesFromMakingRoom) {
  scatter(kTurn, SIZE_MAX);
  ASSERT_GT(engine_->heap.pages().in_use(), kTurn / kHugePageSize / 2) << "it pins most pages";
  ASSERT_LT(cache_->magazines.cached_bytes(), size_t{2} << 20);
  grow(kTurn);
  EXPECT_LE(engine_->heap.backed_bytes(), kTurn + kTurn / 10 + kMapped);
  EXPECT_TRUE(engine_->heap.is_consistent());
}

class RunsAmongSlotsTest : public GrowthTest {
 protected:
  RunsAmongSlotsTest() { engine_->threads.adopt(engine_->arena); }  // stands for this thread
  void allocate_run() {
    ASSERT_NE(engine_->allocate(cache_.get(), {.size = kRun, .site = {0x1000, 0}}), nullptr);
  }
  static constexpr size_t kRun = 300 << 10;
};

// Six of them fill a page; between slots it has holes for fewer.
TEST_F(RunsAmongSlotsTest, WhatTheThreadCachesDoesNotScatterThem) {
  scatter(kTurn, SIZE_MAX, 48);
  for (size_t done = 0; done < kTurn; done += kRun) allocate_run();
  EXPECT_LE(engine_->heap.backed_bytes(), kTurn + kTurn / 6);
  EXPECT_TRUE(engine_->heap.is_consistent());
}

TEST_F(RunsAmongSlotsTest, WhereItHelpsNobodyTheThreadKeepsItsCache) {
  scatter(kTurn, 2048);
  const size_t in_use = engine_->heap.pages().in_use();
  ASSERT_GT(cache_->magazines.cached_bytes(), 0u);
  allocate_run();
  ASSERT_EQ(engine_->heap.pages().in_use(), in_use);
  EXPECT_EQ(cache_->magazines.cached_bytes(), 0u);
  free(engine_->allocate(cache_.get(), {.size = 200, .site = {0x1000, 0}}));
  const size_t again = cache_->magazines.cached_bytes();
  ASSERT_GT(again, 0u);
  allocate_run();
  EXPECT_EQ(cache_->magazines.cached_bytes(), again);
}

TEST_F(GrowthTest, OtherThreadsAreAskedToEmptyTheirs) {
  ThreadCache* const others[2] = {engine_->threads.adopt(engine_->arena),
                                  engine_->threads.adopt(engine_->arena)};
  scatter(kTurn, 2);
  for (ThreadCache* other : others) EXPECT_FALSE(other->housekeeping_due);
  grow(kMapped);
  for (ThreadCache* other : others) EXPECT_TRUE(other->housekeeping_due);
}

class SleepersTest : public GrowthTest {
 protected:
  struct Thread {
    explicit Thread(ThreadCache* empty) : slot{empty} {}
    CacheSlot slot;
    ThreadCache* cache = nullptr;
  };
  SleepersTest() {
    pages_.time = Nanos::seconds(100);
    engine_->threads.adopt(engine_->arena);  // stands for this thread
    engine_->step(pages_.time, false);       // the rest is within a second
  }
  void* allocate_in(Thread& thread) {
    ThreadCache* const cache = engine_->own_cache(thread.slot, thread.cache);
    return engine_->allocate(cache, {.size = 200, .site = {0x1000, 0}});
  }
  void free_in(Thread& thread, void* p) {
    engine_->free(thread.slot, thread.cache, p, engine_->heap.find(p), kUnknownSize);
  }
  void cache_some(Thread& thread) {
    void* objects[20];
    for (void*& p : objects) p = allocate_in(thread);
    for (void* p : objects) free_in(thread, p);
    ASSERT_GT(cached(thread), 0u);
  }
  static size_t cached(const Thread& thread) { return thread.cache->magazines.cached_bytes(); }
  Nanos step_after(Nanos time) {
    pages_.time = pages_.time + time;
    return engine_->step(pages_.time, false);
  }

  static constexpr Nanos kAnswered = Nanos::millis(1);
};

TEST_F(SleepersTest, TheirCachesAreEmptiedAtOnce) {
  std::deque<Thread> sleepers;
  for (int i = 0; i < 150; ++i) cache_some(sleepers.emplace_back(cache_.get()));
  scatter(kTurn, 2);
  engine_->step(pages_.time, false);
  for (const Thread& sleeper : sleepers) ASSERT_GT(cached(sleeper), 0u);
  ASSERT_EQ(world_.called, 0);
  grow(kMapped);
  EXPECT_EQ(world_.called, 1);
  step_after(kAnswered);
  for (const Thread& sleeper : sleepers) ASSERT_EQ(cached(sleeper), 0u);
  EXPECT_TRUE(engine_->heap.is_consistent());
}

TEST_F(SleepersTest, WhoRunsHasTimeToAnswer) {
  Thread sleeper(cache_.get()), runner(cache_.get());
  for (Thread* thread : {&sleeper, &runner}) cache_some(*thread);
  scatter(kTurn, 2);
  grow(kMapped);
  EXPECT_EQ(step_after({}), kAnswered);
  EXPECT_GT(cached(sleeper), 0u);
  allocate_in(runner);
  cache_some(runner);
  const size_t of_runner = cached(runner);
  EXPECT_GT(step_after(kAnswered), Nanos{});
  EXPECT_EQ(cached(sleeper), 0u);
  EXPECT_EQ(cached(runner), of_runner);
}

TEST_F(SleepersTest, TheStepThatWasDueComesWhenItIsDue) {
  constexpr Nanos kLater = Nanos::millis(10);
  Thread sleeper(cache_.get());
  cache_some(sleeper);
  scatter(kTurn, 2);
  const Nanos sleep = step_after({});
  ASSERT_GT(sleep, kLater);
  grow(kMapped);
  step_after({});
  const Nanos rest = step_after(kLater);
  EXPECT_EQ(rest.n, sleep.n - kLater.n);
  EXPECT_EQ(cached(sleeper), 0u);
  EXPECT_GE(step_after(rest), kShortSleep);
}

// Somebody freed a page meanwhile. He wakes a worker that dozes once, so that step must not be
// lost.
TEST_F(SleepersTest, AStepThatIsWantedMeanwhileFollowsAtOnce) {
  Thread sleeper(cache_.get());
  cache_some(sleeper);
  scatter(kTurn, 2);
  for (int i = 0; i < 20 && !engine_->is_dozing(); ++i) step_after(Nanos::seconds(1));
  ASSERT_TRUE(engine_->is_dozing());
  cache_some(sleeper);
  grow(kMapped);
  ASSERT_GT(world_.called, 0);
  EXPECT_TRUE(engine_->stop_dozing());
  step_after({});
  step_after(kAnswered);
  EXPECT_TRUE(engine_->is_dozing()) << "once more, so that it can be woken";
  EXPECT_EQ(cached(sleeper), 0u);
}

TEST_F(SleepersTest, ACallIsAnsweredThoughTheWorkerReadTheClockBefore) {
  Thread sleeper(cache_.get());
  cache_some(sleeper);
  scatter(kTurn, 2);
  const Nanos read = pages_.time;
  pages_.time = pages_.time + Nanos::millis(5);
  grow(kMapped);
  engine_->step(read, false);
  for (int i = 0; i < 2; ++i) step_after(Nanos::millis(2));
  EXPECT_EQ(cached(sleeper), 0u);
}

TEST_F(SleepersTest, AChildIsNotCalled) {
  Thread sleeper(cache_.get());
  cache_some(sleeper);
  scatter(kTurn, 2);
  grow(kMapped);
  ASSERT_EQ(world_.called, 1);
  engine_->forget_call();
  EXPECT_GE(step_after({}), kShortSleep);
  EXPECT_GT(cached(sleeper), 0u);
}

TEST_F(SleepersTest, OneThreadMakesRoom) {
  Heap& heap = engine_->heap;
  heap.want_caches();
  EXPECT_TRUE(heap.begin_room());
  heap.want_caches();
  EXPECT_FALSE(heap.begin_room()) << "while it does";
  heap.make_room(heap.filling());
  EXPECT_TRUE(heap.begin_room());
  heap.reset_locks_after_fork();
  EXPECT_TRUE(heap.begin_room()) << "in a child, which has no other thread";
}

TEST_F(SleepersTest, AClockThatIsSetBackEndsNoHousekeeping) {
  Thread other(cache_.get());
  allocate_in(other);
  step_after(Nanos::seconds(2));
  allocate_in(other);
  pages_.time = Nanos::seconds(10);
  other.cache->housekeeping_due = false;
  for (int i = 0; i < 3; ++i) step_after(Nanos::seconds(1));
  EXPECT_TRUE(other.cache->housekeeping_due);
}

TEST_F(SleepersTest, BarriersArePreparedBeforeItIsUrgent) {
  EXPECT_EQ(world_.prepared, 0);
  scatter(kTurn, 1);
  step_after({});
  EXPECT_EQ(world_.prepared, 0) << "there is no other thread";
  Thread other(cache_.get());
  allocate_in(other);
  for (int i = 0; i < 2; ++i) step_after({});
  EXPECT_EQ(world_.prepared, 1);
}

// It may help the next time, too, which may come soon.
TEST_F(SleepersTest, WhatTheyCachedWasNotInVain) {
  Thread sleeper(cache_.get());
  for (int turn = 1; turn <= 2; ++turn) {
    std::vector<void*> slots(kTurn / 208);
    for (void*& p : slots) p = allocate_in(sleeper);
    for (size_t i = 0; i < slots.size(); ++i) free_in(sleeper, slots[i * kStride % slots.size()]);
    engine_->heap.drain_depots();
    ASSERT_GT(engine_->heap.pages().in_use(), kTurn / kHugePageSize / 2) << "it pins most pages";
    const int called = world_.called;
    grow(kTurn / 2);
    EXPECT_GT(world_.called, called) << turn;
    step_after(kAnswered);
    EXPECT_LE(engine_->heap.pages().in_use(), 1u);
  }
}

TEST_F(GrowthTest, WhereItHelpsNobodyTheThreadKeepsItsCache) {
  scatter(kTurn, 2);
  const size_t cached = cache_->magazines.cached_bytes();
  ASSERT_GT(cached, 0u);
  grow(kMapped);
  EXPECT_EQ(cache_->magazines.cached_bytes(), 0u) << "it might have";
  free(engine_->allocate(cache_.get(), {.size = 200, .site = {0x1000, 0}}));
  const size_t again = cache_->magazines.cached_bytes();
  ASSERT_GT(again, 0u);
  grow(kTurn);
  EXPECT_EQ(cache_->magazines.cached_bytes(), again);
  engine_->heap.begin_epoch();
  grow(kMapped);
  EXPECT_EQ(cache_->magazines.cached_bytes(), 0u) << "a second later it may";
}

// Other threads may seem to make room each time.
TEST_F(GrowthTest, NotAgainAndAgainInASecond) {
  int emptied = 0;
  for (int turn = 0; turn < 40; ++turn) {
    scatter(size_t{20} << 20, SIZE_MAX);
    ASSERT_GT(cache_->magazines.cached_bytes(), 0u);
    grow(kMapped);
    emptied += cache_->magazines.cached_bytes() == 0;
  }
  EXPECT_GT(emptied, 8);
  EXPECT_LE(emptied, 16);
}

TEST_F(GrowthTest, WhatIsHardlyFreeLeavesTheCacheAlone) {
  scatter(kTurn, 1);
  free(engine_->allocate(cache_.get(), {.size = 200, .site = {0x1000, 0}}));
  const size_t cached = cache_->magazines.cached_bytes();
  ASSERT_GT(cached, 0u);
  engine_->heap.begin_epoch();
  grow(kMapped);
  EXPECT_EQ(cache_->magazines.cached_bytes(), cached);
}

TEST_F(GrowthTest, NothingBeginsWhenItIsCalledOff) {
  engine_->sample_from(kLeast, kInterval);
  answer();
  engine_->sample_from(0, 0);
  allocate(2 * kLeast);
  EXPECT_FALSE(engine_->profiler.on());
  EXPECT_EQ(engine_->profiler.samples(), 0u);
}

}  // namespace
}  // namespace llamalloc
