// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

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
