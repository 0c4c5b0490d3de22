// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "heap/test_direct.h"

namespace llamalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Fetching is felt, and as much is in use as lets several mappings be kept.
class JoinedMappingsTest : public OnFakeMappings {
 protected:
  void SetUp() override {
    system_.most_moved = SIZE_MAX;
    system_.time = Nanos::seconds(1000);
    in_use_ = allocate(240 * kMiB);
    for (int i = 0; i < 10; ++i) {
      deallocate(allocate(12 * kMiB));
      direct_.release(Nanos::max());
    }
    ASSERT_EQ(direct_.kept_bytes(), 0u);
  }
  Span* allocate(size_t bytes, bool grows = false) {
    Span* span = direct_.allocate(bytes, 1, false, grows);
    EXPECT_EQ(map_->find(span->base), span);
    return span;
  }
  void deallocate(Span* span) {
    memset(span->base, 1, span->bytes);
    OnFakeMappings::deallocate(span);
  }
  void keep(std::initializer_list<size_t> sizes) {
    std::vector<Span*> spans;
    for (const size_t mib : sizes) spans.push_back(allocate(mib * kMiB));
    for (Span* span : spans) deallocate(span);
  }

  Span* in_use_ = nullptr;
};

TEST_F(JoinedMappingsTest, TheRestOfALargerOneIsKept) {
  keep({28});
  const size_t mapped = system_.mapped;
  Span* first = allocate(15 * kMiB);
  EXPECT_EQ(first->bytes, 16 * kMiB);
  EXPECT_EQ(first->used_bytes(), 16 * kMiB) << "none of it reads as zero";
  EXPECT_EQ(direct_.kept_bytes(), 12 * kMiB);
  Span* second = allocate(12 * kMiB);
  EXPECT_EQ(second->base, first->base + 16 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
  EXPECT_EQ(system_.mapped, mapped);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(JoinedMappingsTest, ALargerOneTakesTheMemoryOfSeveral) {
  keep({6, 10, 4});
  const size_t mapped = system_.mapped, in_use = direct_.bytes();
  Span* span = allocate(24 * kMiB);
  EXPECT_EQ(span->used_bytes(), 20 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
  // A leaf of the map of spans comes to it where the new mapping is the first in its 4 GiB.
  EXPECT_EQ((system_.mapped - mapped) % (8 * kMiB), 4 * kMiB);
  EXPECT_EQ(direct_.bytes(), in_use + 24 * kMiB);
  for (size_t i = 0; i < span->bytes; i += kSmallPage) ASSERT_EQ(span->base[i], i < 20 * kMiB) << i;
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(JoinedMappingsTest, WhatIsNotNeededOfOneStays) {
  keep({6, 10});
  Span* span = allocate(12 * kMiB);
  EXPECT_EQ(span->used_bytes(), 12 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 4 * kMiB);
}

// A leaf of the map of spans covers 4 GiB.
TEST_F(JoinedMappingsTest, WhatIsLeftMayBeginBehindALeafOfTheMap) {
  constexpr uintptr_t kLeaf = uintptr_t{1} << SpanMap::kLeafShift;
  const auto near = reinterpret_cast<uintptr_t>(in_use_->base);
  char* const leaf = reinterpret_cast<char*>(align_down(near, kLeaf) - 16 * kLeaf);
  system_.map_at = leaf - 6 * kMiB;
  keep({12});
  allocate(9 * kMiB / 2);
  EXPECT_EQ(direct_.kept_bytes(), 8 * kMiB);
  allocate(9 * kMiB / 2);
  EXPECT_EQ(direct_.kept_bytes(), 4 * kMiB);
  EXPECT_EQ(allocate(4 * kMiB)->base, leaf + 2 * kMiB);
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(JoinedMappingsTest, WhereTheSystemRefusesTheRestIsFetched) {
  for (const size_t moved : {size_t{0}, kHugePageSize}) {
    keep({6, 10});
    system_.most_moved = SIZE_MAX;
    if (moved != 0)
      system_.most_moved = moved;
    else
      system_.refuse_move = true;
    Span* span = allocate(12 * kMiB);
    EXPECT_EQ(span->used_bytes(), moved);
    memset(span->base, 1, span->bytes);
    EXPECT_TRUE(direct_.is_consistent());
    system_.refuse_move = false;
  }
}

TEST_F(JoinedMappingsTest, WhereRoundingWouldWasteMuchTheEndIsFetched) {
  keep({20});
  Span* span = allocate(7 * kMiB);
  EXPECT_EQ(span->bytes, 7 * kMiB);
  EXPECT_EQ(span->used_bytes(), 6 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 14 * kMiB);
}

TEST_F(JoinedMappingsTest, AnEndIsTakenOver) {
  keep({5, 5});
  Span* span = allocate(9 * kMiB);
  EXPECT_EQ(span->bytes, 9 * kMiB);
  EXPECT_EQ(span->used_bytes(), 9 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
  for (size_t i = 0; i < span->bytes; i += kSmallPage) ASSERT_EQ(span->base[i], 1) << i;
  EXPECT_TRUE(direct_.is_consistent());
}

TEST_F(JoinedMappingsTest, AnEndMayBeTooLongButNotTooShort) {
  keep({5, 5});
  EXPECT_EQ(allocate(9 * kMiB + kMiB / 16)->used_bytes(), 8 * kMiB);
  keep({5, 5});
  EXPECT_EQ(allocate(9 * kMiB - kMiB / 4)->used_bytes(), 9 * kMiB - kMiB / 4);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
  EXPECT_TRUE(direct_.is_consistent());
}

// What lies before it would have to be zeroed, too.
TEST_F(JoinedMappingsTest, AnEndBehindFreshMemoryIsFetched) {
  keep({5});
  Span* span = allocate(9 * kMiB);
  EXPECT_EQ(span->used_bytes(), 4 * kMiB);
  for (size_t i = 4 * kMiB; i < span->bytes; i += kSmallPage) ASSERT_EQ(span->base[i], 0) << i;
}

// It would be several mappings for the system.
TEST_F(JoinedMappingsTest, WhatGrowsIsNotJoined) {
  keep({6, 10});
  Span* span = allocate(13 * kMiB, true);
  EXPECT_EQ(span->used_bytes(), 10 * kMiB) << "of one that was resized";
  EXPECT_EQ(direct_.kept_bytes(), 6 * kMiB);
  EXPECT_NE(direct_.resize(span, 20 * kMiB), nullptr);
}

TEST_F(JoinedMappingsTest, ABufferMayBeResizedOrNot) {
  keep({6, 10});
  Span* span = allocate(16 * kMiB);
  memset(span->base, 2, span->bytes);
  if (direct_.resize(span, 30 * kMiB) == nullptr) {
    EXPECT_EQ(span->bytes, 16 * kMiB);
  }
  for (size_t i = 0; i < 16 * kMiB; i += kSmallPage) ASSERT_EQ(span->base[i], 2);
  EXPECT_EQ(map_->find(span->base), span);
}

TEST_F(JoinedMappingsTest, WhereNothingIsOwedNoneIsCut) {
  system_.time = system_.time + FetchDebt::kPaidWithin + FetchDebt::kMoment;
  keep({20});
  allocate(7 * kMiB);
  EXPECT_EQ(direct_.kept_bytes(), 0u);
}

}  // namespace
}  // namespace llamalloc
