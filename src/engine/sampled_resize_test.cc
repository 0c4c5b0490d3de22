// SPDX-License-Identifier: Apache-2.0
// What a tracer hears of a sampled object that is resized: of each that it was told of, once more.
#include <gtest/gtest.h>

#include <map>

#include "engine/test_engine.h"
#include "profile/sampler.h"

namespace llamalloc {
namespace {

// As a tracer: which samples are alive, and how many objects each stands for.
class TracedWorld final : public FakeWorld {
 public:
  void note_sample(const void* p, size_t size, double weight) override {
    alive[p] = {size, weight};
  }
  void note_sample_end(const void* p) override { ends += 1, unknown_ends += alive.erase(p) == 0; }

  struct Told {
    size_t size;
    double weight;
  };
  std::map<const void*, Told> alive;
  int ends = 0;
  int unknown_ends = 0;
};

class SampledResizeTest : public testing::Test {
 protected:
  static constexpr size_t kSize = 300 << 10;
  static constexpr size_t kSmaller = 200 << 10;

  // A run in a span of samples, unknown to the profiler.
  Span* take() { return engine_->heap.allocate(kSize, 1, PageGroup::unknown, true); }
  void record(Span* span, bool first, double weight) {
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = 0x1000;
    ASSERT_TRUE(engine_->profiler.on_alloc(span->base, kSize, trace, 0, LifetimeClass::never,
                                           pages_.time, 1, 1, 0, first));
    world_.note_sample(span->base, kSize, weight);
  }

  TestEngine<TracedWorld> made_;
  FakePages& pages_ = made_.pages;
  TracedWorld& world_ = made_.world;
  Engine* const engine_ = made_.engine.get();
};

TEST_F(SampledResizeTest, WhatWasNotRecordedIsNotTold) {
  engine_->profiler.start(1 << 20, pages_.time);
  Span* span = take();
  ASSERT_NE(engine_->resize_in_place(span->base, span, kSmaller), nullptr);
  EXPECT_TRUE(world_.alive.empty());
  EXPECT_EQ(world_.ends, 0);
}

TEST_F(SampledResizeTest, AFirstStandsForItself) {
  engine_->profiler.start(8 << 20, pages_.time);
  Span* span = take();
  record(span, true, 1);
  void* p = engine_->resize_in_place(span->base, span, kSmaller);
  ASSERT_EQ(world_.alive.count(p), 1u);
  EXPECT_EQ(world_.alive[p].size, kSmaller);
  EXPECT_EQ(world_.alive[p].weight, 1);
  EXPECT_EQ(world_.ends, 1);
  EXPECT_EQ(world_.unknown_ends, 0);
}

// Its slot is larger than that of an object that is not sampled. If it stayed where others move, it
// would stand for them though each has been told as it moved: lists that grow counted many times.
TEST_F(SampledResizeTest, ItMovesWhereOthersWould) {
  constexpr size_t kAsked = 5000;
  engine_->profiler.start(8 << 20, pages_.time);
  const int bin = bin_of(PageGroup::unknown, class_of_sample(size_class_of(kAsked)), true);
  void* p = engine_->heap.take_one(bin);
  Span* span = engine_->heap.find(p);
  ASSERT_EQ(span->slot_size, 8192u);
  const size_t usable = usable_size_of(kAsked, 1);
  EXPECT_EQ(engine_->usable_size(p, span), 8192u);  // not recorded: nobody counts it
  StackTrace trace;
  trace.depth = 1;
  trace.frames[0] = 0x1000;
  ASSERT_TRUE(engine_->profiler.on_alloc(p, kAsked, trace, 0, LifetimeClass::never, pages_.time, 1,
                                         1, 0, false));
  EXPECT_EQ(engine_->usable_size(p, span), usable);
  EXPECT_EQ(engine_->resize_in_place(p, span, usable + 1), nullptr);
  EXPECT_EQ(engine_->resize_in_place(p, span, usable), p);
}

// As many as when it was allocated, whatever its size and the interval are now.
TEST_F(SampledResizeTest, ASampleStandsForAsManyAsBefore) {
  engine_->profiler.start(8 << 20, pages_.time);
  Span* span = take();
  const double weight = sample_weight(kSize, 8 << 20);
  record(span, false, weight);
  engine_->profiler.start(1, pages_.time);
  void* p = engine_->resize_in_place(span->base, span, kSmaller);
  ASSERT_EQ(world_.alive.count(p), 1u);
  EXPECT_EQ(world_.alive[p].weight, weight);
  engine_->deallocate(nullptr, p, engine_->heap.find(p), kUnknownSize);
  EXPECT_TRUE(world_.alive.empty());
}

}  // namespace
}  // namespace llamalloc
