// SPDX-License-Identifier: Apache-2.0
// What one build learned is found again by the keys of the next one.
#include "policy/carry_over.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "os/fake/fake_pages.h"
#include "policy/test_functions.h"
#include "predict/context_tree.h"

namespace llamalloc {
namespace {

constexpr uint64_t kOld = 11, kNew = 22;
constexpr uint64_t kBucket = 64;

// Functions 0: site, 1 and 2: callers.
class CarryOverTest : public testing::Test {
 protected:
  ~CarryOverTest() override {
    state_.give_back();
    EXPECT_EQ(pages_.mapped, 0u);
  }
  void add(uint8_t level, uint64_t parent, uint64_t word, uint16_t deaths, uint8_t unseen = 0) {
    LearnedNode node{ContextPath::extend(parent, word), level, level < 3, unseen, {}, parent, word};
    node.evidence.deaths[0] = deaths;
    nodes_[node.key] = node;
  }
  // The nodes of a site and of its two callers, and their frames.
  void learn_in(TestFunctions& build, size_t site, size_t one, size_t other, uint8_t unseen = 0) {
    const uint64_t at_site = key(build, site), sized = ContextPath::extend(at_site, kBucket);
    add(1, ContextPath::kRoot, build.code(site, 0x10), 100, unseen);
    add(2, at_site, kBucket, 100, unseen);
    add(3, sized, build.code(one, 0x20), 30, unseen);
    add(3, sized, build.code(other, 0x30), 70, unseen);
    for (const auto& [i, offset] : {std::pair(site, 0x10u), {one, 0x20u}, {other, 0x30u}})
      frames_[build.code(i, offset)] = build.frame(i, offset);
  }
  static uint64_t key(const TestFunctions& build, size_t site) {
    return ContextPath::extend(ContextPath::kRoot, build.code(site, 0x10));
  }
  static uint64_t key(const TestFunctions& build, size_t site, size_t caller, uint32_t offset) {
    const uint64_t sized = ContextPath::extend(key(build, site), kBucket);
    return ContextPath::extend(sized, build.code(caller, offset));
  }
  double carry(TestFunctions& functions) {
    state_.give_back();
    EXPECT_TRUE(state_.nodes.make_room(nodes_.size(), pages_));
    EXPECT_TRUE(state_.frames.make_room(frames_.size(), pages_));
    for (const auto& entry : nodes_) state_.nodes.append(entry.second);
    for (const auto& entry : frames_) state_.frames.append(entry.second);
    return carry_on(functions);
  }
  double carry_on(TestFunctions& functions) {
    const double share = carry_over(&state_, functions, pages_);
    EXPECT_TRUE(is_sorted(state_.nodes.view()));
    EXPECT_TRUE(is_sorted(state_.frames.view()));
    for (const LearnedNode& node : state_.nodes.view())
      EXPECT_TRUE(!node.path_is_known() || ContextPath::extend(node.parent, node.word) == node.key);
    return share;
  }
  const LearnedNode* find(uint64_t key) const {
    for (const LearnedNode& node : state_.nodes.view())
      if (node.key == key) return &node;
    return nullptr;
  }

  FakePages pages_;
  std::map<uint64_t, LearnedNode> nodes_;
  std::map<uint64_t, LearnedFrame> frames_;
  LearnedState state_;
};

TEST_F(CarryOverTest, EachNodeHasATwinWhereItsFramesAreNow) {
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 2, 8, 3, 7, 1});
  learn_in(before, 0, 1, 2);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  EXPECT_EQ(state_.nodes.size(), 8u);
  EXPECT_EQ(state_.frames.size(), 6u);
  ASSERT_NE(find(key(now, 5)), nullptr);
  EXPECT_EQ(find(key(now, 5))->evidence.deaths[0], 100);
  EXPECT_TRUE(find(key(now, 5))->differs);
  ASSERT_NE(find(key(now, 5, 1, 0x20)), nullptr);
  EXPECT_EQ(find(key(now, 5, 1, 0x20))->evidence.deaths[0], 30);
  ASSERT_NE(find(key(now, 5, 3, 0x30)), nullptr);
  EXPECT_NE(find(key(before, 0, 1, 0x20)), nullptr) << "for a roll-back";
}

TEST_F(CarryOverTest, WhatIsBelowALostFrameIsLost) {
  TestFunctions before(kOld, {1, 2, 3}), no_caller(kNew, {1, 2, 9}), no_site(kNew, {9, 2, 3});
  learn_in(before, 0, 1, 2);
  EXPECT_DOUBLE_EQ(carry(no_caller), 0.3);
  EXPECT_NE(find(key(no_caller, 0, 1, 0x20)), nullptr);
  EXPECT_EQ(find(key(no_caller, 0, 2, 0x30)), nullptr);
  EXPECT_DOUBLE_EQ(carry(no_site), 0);
  EXPECT_EQ(state_.nodes.size(), 4u);
}

TEST_F(CarryOverTest, TheSameBuildGainsNothing) {
  TestFunctions same(kOld, {1, 2, 3});
  learn_in(same, 0, 1, 2);
  EXPECT_DOUBLE_EQ(carry(same), 1);
  EXPECT_EQ(state_.nodes.size(), 4u);
  EXPECT_EQ(state_.frames.size(), 3u);
}

TEST_F(CarryOverTest, TwiceIsAsGoodAsOnce) {
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 1, 2, 3});
  learn_in(before, 0, 1, 2);
  carry(now);
  for (LearnedNode& node : state_.nodes.rows())
    if (node.key == key(now, 1, 2, 0x20)) node.evidence.deaths[0] = 500;
  EXPECT_DOUBLE_EQ(carry_on(now), 1);
  EXPECT_EQ(state_.nodes.size(), 8u);
  EXPECT_EQ(state_.frames.size(), 6u);
  EXPECT_EQ(find(key(now, 1, 2, 0x20))->evidence.deaths[0], 500) << "what it saw itself stays";
}

TEST_F(CarryOverTest, OfSeveralBuildsTheLastOneCounts) {
  TestFunctions first(kOld, {1, 2, 3}), second(kOld + 1, {8, 1, 2, 3}), now(kNew, {1, 9, 2, 3});
  learn_in(first, 0, 1, 2, 4);
  for (auto& entry : nodes_) entry.second.evidence.deaths[0] = 1000;
  learn_in(second, 1, 2, 3);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  EXPECT_EQ(state_.nodes.size(), 12u);
  EXPECT_EQ(find(key(now, 0, 2, 0x20))->evidence.deaths[0], 30);
  EXPECT_EQ(find(key(now, 0, 2, 0x20))->unseen, 0);
}

TEST_F(CarryOverTest, ACallThatWasDoubledIsKnownAtBothPlaces) {
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {1, 7, 3});
  before.calls(1, {{0x20, 70}});
  now.calls(1, {{0x28, 70}, {0x38, 70}});
  learn_in(before, 0, 1, 2);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  EXPECT_NE(find(key(now, 0, 1, 0x28)), nullptr);
  EXPECT_NE(find(key(now, 0, 1, 0x38)), nullptr);
  EXPECT_EQ(state_.nodes.size(), 9u);
}

TEST_F(CarryOverTest, NodesWithoutAPathOrAParentStayAsTheyAre) {
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 1, 2, 3});
  learn_in(before, 0, 1, 2);
  nodes_[key(before, 0)].parent = nodes_[key(before, 0)].word = 0;
  EXPECT_DOUBLE_EQ(carry(now), 0);
  EXPECT_EQ(state_.nodes.size(), 4u);
}

TEST_F(CarryOverTest, AStackThatEndsIsAPart) {
  TestFunctions before(kOld, {1}), now(kNew, {9, 1});
  const uint64_t sized = ContextPath::extend(key(before, 0), kBucket);
  add(1, ContextPath::kRoot, before.code(0, 0x10), 9);
  add(2, key(before, 0), kBucket, 9);
  add(3, sized, 0, 9);
  frames_[before.code(0, 0x10)] = before.frame(0, 0x10);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  EXPECT_NE(find(ContextPath::extend(ContextPath::extend(key(now, 1), kBucket), 0)), nullptr);
}

TEST_F(CarryOverTest, WithoutMemoryTheStateIsAsItWas) {
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 1, 2, 3});
  learn_in(before, 0, 1, 2);
  for (int calls = 0; calls < 5; ++calls) {
    state_.give_back();
    pages_.calls_left = INT64_MAX;
    ASSERT_TRUE(state_.nodes.make_room(4, pages_));
    ASSERT_TRUE(state_.frames.make_room(3, pages_));
    for (const auto& entry : nodes_) state_.nodes.append(entry.second);
    for (const auto& entry : frames_) state_.frames.append(entry.second);
    pages_.calls_left = calls;
    EXPECT_DOUBLE_EQ(carry_on(now), 0) << calls;
    EXPECT_EQ(state_.nodes.size(), 4u);
  }
  pages_.calls_left = INT64_MAX;
}

// Builds in which functions come, go, move and change: each twin's frames look like those that it
// is of, and no two nodes of one build share a twin.
TEST_F(CarryOverTest, TwinsAreOfTheSameFunctions) {
  std::minstd_rand random(7);
  int carried = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<uint64_t> looks(30);
    for (uint64_t& look : looks) look = 1 + random() % 40;
    std::vector<uint64_t> later = looks;
    for (auto edits = random() % 6; edits > 0; --edits) {
      const auto at = static_cast<ptrdiff_t>(random() % later.size());
      const auto kind = random() % 3;
      if (kind == 0) later.erase(later.begin() + at);
      if (kind == 1) later.insert(later.begin() + at, 1 + random() % 40);
      if (kind == 2) later[static_cast<size_t>(at)] = 100 + random() % 40;
    }
    TestFunctions before(kOld, looks), now(kNew, later);
    nodes_.clear();
    frames_.clear();
    for (int i = 0; i < 8; ++i)
      learn_in(before, random() % looks.size(), random() % looks.size(), random() % looks.size());
    carry(now);
    std::map<uint64_t, uint64_t> look_of;  // by code, in the new build
    for (size_t i = 0; i < later.size(); ++i)
      for (const uint32_t offset : {0x10u, 0x20u, 0x30u}) look_of[now.code(i, offset)] = later[i];
    std::map<uint64_t, int> sites;
    for (const LearnedNode& node : state_.nodes.view()) {
      if (nodes_.contains(node.key) || !node.names_a_frame()) continue;
      ++carried;
      ASSERT_TRUE(look_of.contains(node.word));
      EXPECT_LT(look_of[node.word], 100u);
      sites[node.level == 1 ? node.key : 0]++;
    }
    for (const auto& [site, count] : sites) EXPECT_TRUE(site == 0 || count == 1);
  }
  EXPECT_GT(carried, 3000);
}

}  // namespace
}  // namespace llamalloc
