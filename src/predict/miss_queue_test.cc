// SPDX-License-Identifier: Apache-2.0
#include "predict/miss_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

class MissQueueTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(queue_.open(arena_)); }
  void submit(uint64_t key, bool recheck = false) {
    Miss* miss = queue_.reserve(recheck);
    ASSERT_NE(miss, nullptr);
    miss->key = key;
    memset(miss->stack, 1, Miss::kStackBytes);
    queue_.submit(miss);
  }
  int drain() {
    return queue_.for_each_ready([](Miss&) {});
  }

  FakePages system_;
  MetadataArena arena_{system_};
  MissQueue queue_;
};

TEST_F(MissQueueTest, HandsOnWhatWasSubmittedAndNothingElse) {
  Miss* filling = queue_.reserve(false);
  for (uint64_t key = 1; key <= 3; ++key) submit(key);
  std::set<uint64_t> keys;
  EXPECT_EQ(queue_.for_each_ready([&](Miss& miss) { keys.insert(miss.key); }), 3);
  EXPECT_EQ(keys, (std::set<uint64_t>{1, 2, 3}));
  EXPECT_EQ(drain(), 0);
  queue_.submit(filling);
  EXPECT_EQ(drain(), 1);
}

TEST_F(MissQueueTest, AFullQueueSaysNo) {
  for (uint32_t i = 0; i < MissQueue::kMisses; ++i) submit(i);
  EXPECT_EQ(queue_.reserve(false), nullptr);
  EXPECT_EQ(drain(), static_cast<int>(MissQueue::kMisses));
  EXPECT_NE(queue_.reserve(false), nullptr);
}

TEST_F(MissQueueTest, RechecksLeaveRoomForFirstSeenContexts) {
  for (uint32_t i = 0; i < MissQueue::kRecheckPlaces; ++i) submit(i, true);
  EXPECT_EQ(queue_.reserve(true), nullptr);
  EXPECT_NE(queue_.reserve(false), nullptr);
}

TEST_F(MissQueueTest, WhatARushTouchedGoesBack) {
  const size_t before = arena_.resident_bytes();
  for (uint32_t i = 0; i < MissQueue::kMisses; ++i) submit(i);
  drain();
  EXPECT_GE(arena_.resident_bytes(), before + MissQueue::kMisses * Miss::kStackBytes);
  queue_.rest(system_);
  EXPECT_EQ(system_.discards, 0) << "used since the call before";
  submit(7, true);
  drain();
  queue_.rest(system_);
  EXPECT_LE(arena_.resident_bytes(), before + Miss::kStackBytes);
  queue_.rest(system_);
  EXPECT_LE(arena_.resident_bytes(), before);
  const int discards = system_.discards;
  queue_.rest(system_);
  EXPECT_EQ(system_.discards, discards);
  submit(8);
  EXPECT_EQ(drain(), 1);
}

TEST_F(MissQueueTest, APlaceInUseIsLeftAlone) {
  Miss* filling = queue_.reserve(false);
  memset(filling->stack, 5, Miss::kStackBytes);
  for (int i = 0; i < 3; ++i) queue_.rest(system_);
  EXPECT_EQ(filling->stack[Miss::kStackBytes - 1], 5);
}

}  // namespace
}  // namespace llamalloc
