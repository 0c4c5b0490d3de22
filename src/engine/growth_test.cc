// SPDX-License-Identifier: Apache-2.0
// Samples that begin when the heap has grown, by the thread that made it grow
// (Engine::sample_from).
#include <gtest/gtest.h>

#include <memory>

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
