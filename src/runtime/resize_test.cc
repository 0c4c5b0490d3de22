// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>

#include "runtime/allocator.h"

namespace llamalloc {
namespace {

constexpr CallSite kSite{};

bool reads(const char* p, char value, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (p[i] != value) return false;
  return true;
}

// A buffer that grows: counts how often it moved, and keeps its contents.
struct Buffer {
  char* p = nullptr;
  size_t size = 0;
  int moves = 0;

  void resize(size_t to) {
    char* const before = p;
    p = static_cast<char*>(reallocate(p, to, kSite));
    ASSERT_NE(p, nullptr);
    ASSERT_GE(usable_size(p), to);
    ASSERT_TRUE(reads(p, 7, size < to ? size : to));
    memset(p, 7, to);
    moves += before != nullptr && p != before;
    size = to;
  }
  ~Buffer() { deallocate(p, CallSite{}); }
};

TEST(Resize, AGrowingBufferSoonStaysWhereItIs) {
  Buffer buffer;
  for (size_t size = 16; size <= kTableMax; size += size * 3 / 10) buffer.resize(size);
  buffer.moves = 0;
  for (size_t size = 33'000; size < 500'000; size += 5'000) buffer.resize(size);
  EXPECT_LE(buffer.moves, 4);
}

TEST(Resize, BuffersThatGrowInTurnSeldomMove) {
  Buffer buffers[4];
  int steps = 0;
  for (size_t size = 33'000; size < 300'000; size += 5'000)
    for (Buffer& buffer : buffers) buffer.resize(size), ++steps;
  for (const Buffer& buffer : buffers) EXPECT_LE(buffer.moves, 6) << "of " << steps / 4;
}

// Where a run would waste more than a slot may, it is not one.
TEST(Resize, BelowTheTableARunHasToFit) {
  const auto grown_to = [](size_t size) {
    void* p = reallocate(allocate(1'000, kSite), size, kSite);
    const Span* span = process.heap.find(p);
    EXPECT_LE(span->object_size() - size, size / 8) << size;
    const SpanKind kind = span->kind;
    deallocate(p, CallSite{});
    return kind;
  };
  EXPECT_EQ(grown_to(12'000), SpanKind::slots);
  EXPECT_EQ(grown_to(14'000), SpanKind::slots);
  EXPECT_EQ(grown_to(15'000), SpanKind::run);
  EXPECT_EQ(grown_to(17'000), SpanKind::slots);
  EXPECT_EQ(grown_to(24'000), SpanKind::run);
}

TEST(Resize, AFirstAllocationOfThatSizeIsASlot) {
  void* p = allocate(40'000, kSite);
  EXPECT_EQ(process.heap.find(p)->kind, SpanKind::slots);
  EXPECT_EQ(reallocate(p, 39'000, kSite), p);
  p = reallocate(p, 50'000, kSite);
  EXPECT_EQ(process.heap.find(p)->kind, SpanKind::run);
  p = reallocate(p, 1'000, kSite);
  EXPECT_EQ(process.heap.find(p)->kind, SpanKind::slots);
  EXPECT_EQ(usable_size(p), 1024u);
  deallocate(p, CallSite{});
}

TEST(Resize, OverTheBordersOfAllKindsAndBack) {
  Buffer buffer;
  const size_t sizes[] = {1,       32'768,    32'769,  262'144, 262'145, 1'048'576, 1'048'577,
                          5 << 20, 1'048'577, 200'000, 40'000,  16'385,  16'384,    17};
  for (const size_t size : sizes) buffer.resize(size);
}

// One object in a span of samples, as the profile sees it.
class SampledResize : public testing::Test {
 protected:
  static constexpr Nanos kAge = Nanos::seconds(100);

  void SetUp() override { process.profiler.start(1, {0}); }
  void TearDown() override { process.profiler.stop(); }

  void* sampled(size_t size) {
    void* p = nullptr;
    if (size <= kSmallMax)
      p = process.heap.take_one(bin_of(PageGroup::unknown, size_class_of(size), true));
    else
      p = process.heap.allocate(size, 1, PageGroup::unknown, true)->base;
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = 0x1234;
    born_ = process.system.now() - kAge;
    EXPECT_TRUE(
        process.profiler.on_alloc(p, size, trace, 0, LifetimeClass::never, born_, 1, 1, tag_));
    return p;
  }
  // What the profile has as alive: an address, a size and an age.
  std::optional<Profiler::Live> alive() {
    std::optional<Profiler::Live> found;
    process.profiler.for_each_live(process.system.now(), [&](const Profiler::Live& live) {
      EXPECT_FALSE(found.has_value());
      found = live;
    });
    return found;
  }
  double freed() {
    Profiler::TagSum sums[256];
    process.profiler.sum_by_tag(sums, tag_ + 1);
    return sums[tag_].freed_objects;
  }
  void expect_alive(const void* p, size_t size) {
    const auto live = alive();
    ASSERT_TRUE(live.has_value());
    EXPECT_EQ(live->address, p);
    EXPECT_EQ(live->size, size);
    EXPECT_GE(live->age, kAge);
  }

  Nanos born_{};
  const uint32_t tag_ = process.profiler.tags().intern("resized");
};

TEST_F(SampledResize, AMappingThatMovesIsTheSameSample) {
  const double before = freed();
  void* p = sampled(3 << 20);
  void* walls[2];  // so that the system has to move it
  for (void*& wall : walls)
    wall = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* q = reallocate(p, 40 << 20, kSite);
  ASSERT_NE(p, q);
  expect_alive(q, 40 << 20);
  q = reallocate(q, 4 << 20, kSite);
  expect_alive(q, 4 << 20);
  // Another object where the first one lay is another sample.
  deallocate(q, CallSite{});
  EXPECT_FALSE(alive().has_value());
  EXPECT_EQ(freed() - before, 1);
  for (void* wall : walls) munmap(wall, 4096);
}

TEST_F(SampledResize, AnotherSampleMayLieAtTheOldAddress) {
  void* p = sampled(2 << 20);
  process.profiler.on_leave(p, process.heap.find(p));
  StackTrace trace;
  ASSERT_TRUE(process.profiler.on_alloc(p, 77, trace, 0, LifetimeClass::mixed, {1}, 1, 1));
  void* elsewhere = &trace;
  process.profiler.on_arrive(process.heap.find(p), elsewhere);
  EXPECT_TRUE(process.profiler.on_free(p, {2}, 1, 1).found);
  expect_alive(elsewhere, 2 << 20);
  EXPECT_TRUE(process.profiler.on_free(elsewhere, process.system.now(), 1, 1).found);
  deallocate(p, CallSite{});
}

TEST_F(SampledResize, RunsAndSlotsThatStayHaveTheirLastSize) {
  for (const size_t size : {size_t{100}, size_t{20'000}, size_t{400'000}}) {
    void* p = sampled(size);
    const size_t less = size - size / 8;
    ASSERT_EQ(reallocate(p, less, kSite), p);
    expect_alive(p, less);
    deallocate(p, CallSite{});
    EXPECT_FALSE(alive().has_value()) << size;
  }
}

TEST_F(SampledResize, WhatIsCopiedDiesAtItsOldAddress) {
  void* p = sampled(2 << 20);
  p = reallocate(p, 1000, kSite);
  EXPECT_FALSE(alive().has_value());
  deallocate(p, CallSite{});
}

// Slots come back as they were freed.
TEST(Zeroed, EverySmallSizeWhateverWasThere) {
  for (size_t size = 0; size <= 300; ++size) {
    for (int i = 0; i < 3; ++i) {
      void* p = allocate(size, kSite);
      memset(p, 0xff, usable_size(p));
      deallocate(p, CallSite{});
      auto* zeroed = static_cast<char*>(allocate_zeroed(size, kSite));
      ASSERT_TRUE(reads(zeroed, 0, size)) << size;
      deallocate(zeroed, CallSite{});
    }
  }
}

}  // namespace
}  // namespace llamalloc
