// SPDX-License-Identifier: Apache-2.0
// What one build learned is found again by the keys of the next one.
#include "learning/carry_over.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "learning/test_functions.h"
#include "os/fake/fake_pages.h"
#include "predict/context_tree.h"

namespace llamalloc {
namespace {

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
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 8, 1, 2, 3});
  learn_in(before, 0, 1, 2);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  EXPECT_EQ(state_.nodes.size(), 8u);
  EXPECT_EQ(state_.frames.size(), 6u);
  ASSERT_NE(find(key(now, 2)), nullptr);
  EXPECT_EQ(find(key(now, 2))->evidence.deaths[0], 100);
  EXPECT_TRUE(find(key(now, 2))->differs);
  ASSERT_NE(find(key(now, 2, 3, 0x20)), nullptr);
  EXPECT_EQ(find(key(now, 2, 3, 0x20))->evidence.deaths[0], 30);
  ASSERT_NE(find(key(now, 2, 4, 0x30)), nullptr);
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

// Else what this build cannot ask for takes half of the room.
TEST_F(CarryOverTest, AtABoundTheOldNodesLeaveFirst) {
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 1, 2, 3});
  learn_in(before, 0, 1, 2);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  for (const LearnedNode& node : state_.nodes.view())
    EXPECT_EQ(node.unseen, nodes_.contains(node.key) ? 1 : 0);
  NodeArray best;
  ASSERT_TRUE(merge_nodes(state_.nodes.view(), {}, {}, 4, pages_, &best));
  for (const LearnedNode& node : best.view()) EXPECT_FALSE(nodes_.contains(node.key));
  best.give_back();
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
  TestFunctions first(kOld, {1, 2, 3}), second(kOld + 1, {8, 1, 2, 3}), now(kNew, {1, 2, 3, 9});
  learn_in(first, 0, 1, 2, 4);
  for (auto& entry : nodes_) entry.second.evidence.deaths[0] = 1000;
  learn_in(second, 1, 2, 3);
  EXPECT_DOUBLE_EQ(carry(now), 1);
  EXPECT_EQ(state_.nodes.size(), 12u);
  EXPECT_EQ(find(key(now, 0, 1, 0x20))->evidence.deaths[0], 30);
  EXPECT_EQ(find(key(now, 0, 1, 0x20))->unseen, 0);
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
  TestFunctions before(kOld, {1, 4}), now(kNew, {9, 1, 4});
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
  for (int calls = 0; calls < 9; ++calls) {
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

// Builds in which functions come, go, move and change, each with an identity that the code does not
// see, while many look alike. A twin's frames are hardly ever in another function than those that
// it is of, and no place is given to two frames of one build.
TEST_F(CarryOverTest, FramesStayInTheirFunctions) {
  struct Function {
    uint64_t id, look;
  };
  std::minstd_rand random(7);
  const auto looks_of = [](const std::vector<Function>& all) {
    std::vector<uint64_t> looks;
    for (const Function& one : all) looks.push_back(one.look);
    return looks;
  };
  int found = 0, wrong = 0;
  for (int round = 0; round < 2000; ++round) {
    uint64_t next = 0;
    std::vector<Function> old(40);
    for (Function& one : old) one = {next++, 1 + random() % 25};
    std::vector<Function> later = old;
    for (auto edits = random() % 6; edits > 0; --edits) {
      const auto at = static_cast<ptrdiff_t>(random() % later.size());
      const auto kind = random() % 3;
      if (kind == 0) later.erase(later.begin() + at);
      if (kind == 1) later.insert(later.begin() + at, {next++, 1 + random() % 25});
      if (kind == 2) later[static_cast<size_t>(at)].look = 100 + random() % 40;
    }
    TestFunctions before(kOld, looks_of(old)), now(kNew, looks_of(later));
    std::map<uint64_t, uint64_t> id_of;
    std::vector<LearnedFrame> frames;
    for (size_t i = 0; i < old.size(); ++i) {
      before.calls(i, {{0x10, 70}, {0x20, 80}});
      for (const uint32_t offset : {0x10u, 0x20u}) {
        id_of[before.code(i, offset)] = old[i].id;
        frames.push_back(before.frame(i, offset));
      }
    }
    for (size_t i = 0; i < later.size(); ++i) {
      const bool doubled = random() % 8 == 0 && later[i].look >= 100;
      if (doubled)
        now.calls(i, {{0x14, 70}, {0x18, 70}, {0x28, 80}});
      else
        now.calls(i, {{0x14, 70}, {0x28, 80}});
      for (const uint32_t offset : {0x10u, 0x14u, 0x18u, 0x20u, 0x28u})
        id_of[now.code(i, offset)] = later[i].id;
    }
    std::ranges::sort(frames, {}, &LearnedFrame::code);
    FrameMatch match;
    ASSERT_TRUE(match.find(frames, now, pages_));
    std::map<uint64_t, uint64_t> taken;
    for (const LearnedFrame& frame : frames) {
      for (uint32_t place = 0; place < match.places(); ++place) {
        const uint64_t here = match.find_here(frame.code, place).code;
        if (here == 0) continue;
        ASSERT_TRUE(id_of.contains(here));
        ASSERT_EQ(taken.try_emplace(here, frame.code).first->second, frame.code) << round;
        found += place == 0;
        wrong += place == 0 && id_of[here] != id_of[frame.code];
      }
    }
    match.give_back();
  }
  EXPECT_GT(found, 100'000);
  EXPECT_LT(wrong, found / 200);
}

}  // namespace
}  // namespace llamalloc
