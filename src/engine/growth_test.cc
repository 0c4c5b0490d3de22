// SPDX-License-Identifier: Apache-2.0
// What the thread does that makes the heap grow: samples begin (Engine::sample_from), and what it
// caches makes room.
#include <gtest/gtest.h>

#include <algorithm>
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

TEST_F(GrowthTest, ThatOfOneWhoSleepsIsEmptiedAtOnce) {
  CacheSlot slots[2] = {CacheSlot{cache_.get()}, CacheSlot{cache_.get()}};
  ThreadCache* others[2] = {};
  for (int i = 0; i < 2; ++i) {
    ThreadCache* const other = engine_->own_cache(slots[i], others[i]);
    void* objects[20];
    for (void*& p : objects) p = engine_->allocate(other, {.size = 200, .site = {0x1000, 0}});
    for (void* p : objects)
      engine_->free(slots[i], others[i], p, engine_->heap.find(p), kUnknownSize);
    ASSERT_GT(other->magazines.cached_bytes(), 0u);
  }
  scatter(kTurn, 2);
  engine_->step(pages_.time, false);
  EXPECT_GT(others[0]->magazines.cached_bytes(), 0u);
  ASSERT_EQ(world_.called, 0);
  grow(kMapped);
  EXPECT_EQ(world_.called, 1);
  engine_->step(pages_.time, false);
  for (const ThreadCache* other : others) EXPECT_EQ(other->magazines.cached_bytes(), 0u);
  EXPECT_TRUE(engine_->heap.is_consistent());
}

TEST_F(GrowthTest, TheFirstBarrierComesBeforeItIsUrgent) {
  engine_->step(pages_.time, false);
  EXPECT_EQ(world_.barriers, 0) << "small heaps do without";
  scatter(kTurn, 1);
  for (int i = 0; i < 2; ++i) engine_->step(pages_.time, false);
  EXPECT_EQ(world_.barriers, 1);
}

// It may help the next time, too, which may come soon.
TEST_F(GrowthTest, WhatASleeperCachedWasNotInVain) {
  CacheSlot slot{cache_.get()};
  ThreadCache* sleeper = nullptr;
  engine_->threads.adopt(engine_->arena);  // stands for this thread
  engine_->step(pages_.time, false);       // the rest is within a second
  for (int turn = 1; turn <= 2; ++turn) {
    std::vector<void*> slots(kTurn / 208);
    for (void*& p : slots)
      p = engine_->allocate(engine_->own_cache(slot, sleeper), {.size = 200, .site = {0x1000, 0}});
    for (size_t i = 0; i < slots.size(); ++i) {
      void* const p = slots[i * kStride % slots.size()];
      engine_->free(slot, sleeper, p, engine_->heap.find(p), kUnknownSize);
    }
    engine_->heap.drain_depots();
    ASSERT_GT(engine_->heap.pages().in_use(), kTurn / kHugePageSize / 2) << "it pins most pages";
    const int called = world_.called;
    grow(kTurn / 2);
    EXPECT_GT(world_.called, called) << turn;
    engine_->step(pages_.time, false);
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
