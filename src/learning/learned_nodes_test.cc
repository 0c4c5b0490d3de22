// SPDX-License-Identifier: Apache-2.0
#include "learning/learned_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

using Nodes = std::vector<LearnedNode>;

LearnedNode node(uint64_t key, uint16_t deaths, uint8_t unseen = 0) {
  LearnedNode made{key, 1, false, unseen, {}};
  made.evidence.deaths[0] = deaths;
  return made;
}

bool same(const LearnedNode& a, const LearnedNode& b) {
  return memcmp(&a, &b, sizeof(a)) == 0;
}

class LearnedNodesTest : public testing::Test {
 protected:
  Nodes merge(const Nodes& base, const Nodes& take_away, const Nodes& add, size_t bound = 1000) {
    NodeArray out;
    EXPECT_TRUE(merge_nodes(base, take_away, add, bound, pages_, &out));
    EXPECT_TRUE(is_sorted(out.view()));
    const Nodes merged(out.view().begin(), out.view().end());
    out.give_back();
    EXPECT_EQ(pages_.mapped, 0u);
    return merged;
  }
  // By a map, one key after the other.
  static Nodes naive(const Nodes& base, const Nodes& take_away, const Nodes& add, size_t bound) {
    std::map<uint64_t, LearnedNode> sum;
    for (const LearnedNode& n : base) sum[n.key] = n;
    for (const LearnedNode& n : take_away)
      if (sum.contains(n.key)) sum[n.key].evidence.take_away(n.evidence);
    for (const LearnedNode& n : add) {
      const bool is_new = !sum.contains(n.key);
      LearnedNode& to = sum.try_emplace(n.key, n).first->second;
      if (is_new) continue;
      to.evidence.add(n.evidence);
      to.unseen = std::min(to.unseen, n.unseen);
      to.differs = to.differs || n.differs;
    }
    std::erase_if(sum, [](const auto& entry) { return is_empty(entry.second.evidence); });
    while (sum.size() > bound) sum.erase(worst(sum));
    Nodes nodes;
    for (const auto& entry : sum) nodes.push_back(entry.second);
    return nodes;
  }
  // A site, its size, and callers of it.
  Nodes settle(const Evidence& whole, const Nodes& callers, uint64_t size = 64) {
    Nodes nodes{{1, 1, true, 0, whole, 100, 7}, {2, 2, true, 0, whole, 1, size}};
    for (LearnedNode caller : callers) {
      caller.level = 3;
      caller.parent = 2;
      nodes.push_back(caller);
    }
    settle_differs(nodes, pages_);
    EXPECT_EQ(pages_.mapped, 0u);
    return nodes;
  }
  static Evidence sum(Evidence a, const Evidence& b) {
    a.add(b);
    return a;
  }
  static uint64_t worst(const std::map<uint64_t, LearnedNode>& nodes) {
    const LearnedNode* found = &nodes.begin()->second;
    for (const auto& [key, n] : nodes) {
      const uint32_t samples = n.evidence.samples(), least = found->evidence.samples();
      if (n.unseen > found->unseen || (n.unseen == found->unseen && samples <= least)) found = &n;
    }
    return found->key;
  }

  FakePages pages_;
};

TEST_F(LearnedNodesTest, AddsWhatTheFileHasNot) {
  const Nodes merged = merge({node(1, 5), node(4, 5)}, {}, {node(2, 3), node(4, 1)});
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[1].key, 2u);
  EXPECT_EQ(merged[2].evidence.deaths[0], 6);
}

TEST_F(LearnedNodesTest, WhatWasWrittenLastCountsOnce) {
  const Nodes others{node(1, 5)}, first{node(1, 10), node(2, 1)}, then{node(1, 12), node(2, 4)};
  const Nodes merged = merge(merge(others, {}, first), first, then);
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].evidence.deaths[0], 17);
  EXPECT_EQ(merged[1].evidence.deaths[0], 4);
}

TEST_F(LearnedNodesTest, TakesNothingFromAFileThatWasRemoved) {
  const Nodes merged = merge({}, {node(1, 10)}, {node(1, 12)});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].evidence.deaths[0], 12);
}

TEST_F(LearnedNodesTest, NothingIsLeftOfWhatWasTakenBack) {
  EXPECT_TRUE(merge({node(1, 5)}, {node(1, 9)}, {}).empty());
  EXPECT_TRUE(merge({}, {}, {}).empty());
}

TEST_F(LearnedNodesTest, DiffersWhereEitherSaysSo) {
  LearnedNode differing = node(1, 5);
  differing.differs = true;
  EXPECT_TRUE(merge({differing}, {}, {node(1, 5)})[0].differs);
  EXPECT_TRUE(merge({node(1, 5)}, {}, {differing})[0].differs);
  EXPECT_TRUE(merge({differing}, {differing}, {node(1, 5)})[0].differs);
  EXPECT_FALSE(merge({node(1, 5)}, {differing}, {node(1, 5)})[0].differs);
}

// A file of version 1 does not know it.
TEST_F(LearnedNodesTest, AnUnknownPathIsThatOfWhatIsAdded) {
  LearnedNode known = node(1, 5);
  known.parent = 7;
  known.word = 8;
  EXPECT_EQ(merge({node(1, 5)}, {}, {known})[0].word, 8u);
  EXPECT_EQ(merge({known}, {}, {node(1, 5)})[0].parent, 7u);
}

TEST_F(LearnedNodesTest, LongUnseenOnesGoFirstThenThoseOfFewSamples) {
  const Nodes merged =
      merge({node(1, 900, 3), node(2, 5, 1), node(3, 4), node(4, 9)}, {}, {node(5, 4)}, 3);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].key, 3u);
  EXPECT_EQ(merged[1].key, 4u);
  EXPECT_EQ(merged[2].key, 5u);
  EXPECT_EQ(merge({node(1, 900, 3), node(4, 9)}, {}, {node(1, 1)}, 1)[0].key, 1u);
}

TEST_F(LearnedNodesTest, AgesUpToItsLimit) {
  Nodes nodes{node(1, 1), node(2, 1, 255)};
  age_nodes(nodes);
  EXPECT_EQ(nodes[0].unseen, 1);
  EXPECT_EQ(nodes[1].unseen, 255);
}

Nodes random_nodes(std::minstd_rand& random) {
  std::map<uint64_t, LearnedNode> nodes;
  for (auto left = random() % 60; left > 0; --left) {
    LearnedNode n = node(random() % 80, 0, static_cast<uint8_t>(random() % 3));
    n.differs = random() % 4 == 0;
    n.evidence.deaths[random() % kTimedClasses] = static_cast<uint16_t>(random() % 4);
    n.evidence.young[random() % kTimedClasses] =
        static_cast<uint16_t>(random() % 50 == 0 ? 65535 : random() % 3);
    n.evidence.elders = static_cast<uint16_t>(random() % 2);
    if (!is_empty(n.evidence)) nodes[n.key] = n;
  }
  Nodes sorted;
  for (const auto& entry : nodes) sorted.push_back(entry.second);
  return sorted;
}

TEST_F(LearnedNodesTest, AgreesWithAMap) {
  std::minstd_rand random(11);
  for (int round = 0; round < 5'000; ++round) {
    const Nodes base = random_nodes(random), taken = random_nodes(random);
    const Nodes added = random_nodes(random);
    const size_t bound = round % 2 ? 1000 : random() % 40;
    const Nodes merged = merge(base, taken, added, bound);
    const Nodes expected = naive(base, taken, added, bound);
    ASSERT_TRUE(std::equal(merged.begin(), merged.end(), expected.begin(), expected.end(), same))
        << round;
  }
}

TEST_F(LearnedNodesTest, WithoutMemoryThereIsNoResult) {
  pages_.calls_left = 0;
  NodeArray out;
  const Nodes nodes{node(1, 1)};
  EXPECT_FALSE(merge_nodes(nodes, {}, {}, 10, pages_, &out));
  EXPECT_EQ(out.size(), 0u);
}

constexpr Evidence kDies{{100}, {}, 0}, kStays{{}, {0, 0, 0, 0, 100}, 100};
constexpr Evidence kSeconds{{0, 0, 0, 100}, {}, 0}, kOpen{{1}, {}, 0};

TEST_F(LearnedNodesTest, WhatDiffersGoesOnDoingSo) {
  const LearnedNode dies{3, 3, false, 0, kDies, 2, 8}, stays{4, 3, false, 0, kStays, 2, 9};
  const LearnedNode open{4, 3, false, 0, kOpen, 2, 9};
  for (const Nodes& callers : {Nodes{dies, stays}, Nodes{dies, open}}) {
    const Nodes nodes = settle(sum(kDies, callers[1].evidence), callers);
    EXPECT_TRUE(nodes[0].differs);
    EXPECT_TRUE(nodes[1].differs);
  }
  EXPECT_TRUE(settle(sum(kDies, kStays), {dies})[0].differs) << "a caller has left the file";
  EXPECT_TRUE(settle(sum(kDies, kStays), {})[1].differs);
}

TEST_F(LearnedNodesTest, LargeObjectsThatDieSoonDifferStill) {
  const Nodes callers{{3, 3, false, 0, kDies, 2, 8}, {4, 3, false, 0, kSeconds, 2, 9}};
  EXPECT_TRUE(settle(sum(kDies, kSeconds), callers, kWorthALook)[1].differs);
  EXPECT_TRUE(settle(sum(kDies, kSeconds), callers, kWorthALook)[0].differs) << "so its site does";
  EXPECT_FALSE(settle(sum(kDies, kSeconds), callers, kWorthALook - 1)[1].differs);
}

// What the callers say is newer than what all of its objects say.
TEST_F(LearnedNodesTest, LargeObjectsOfWhichTheLongerLivedCallerLeftDoNot) {
  const Nodes callers{{3, 3, false, 0, kDies, 2, 8}};
  EXPECT_FALSE(settle(sum(kDies, kSeconds), callers, kWorthALook)[1].differs);
}

// A file may say anything of levels and parents, as long as keys fit.
TEST_F(LearnedNodesTest, ANodeThatIsItsOwnParentHasNoSize) {
  Nodes nodes{{6, 3, false, 0, kSeconds, 7, 9}, {7, 3, true, 0, kDies, 7, 8}};
  settle_differs(nodes, pages_);
  EXPECT_FALSE(nodes[1].differs);
}

TEST_F(LearnedNodesTest, WhatDoesNotDifferAnyMoreIsSettledFromTheDeepestLevelOn) {
  const LearnedNode dies{3, 3, false, 0, kDies, 2, 8}, other{4, 3, false, 0, kSeconds, 2, 9};
  for (const Nodes& callers : {Nodes{dies, other}, Nodes{dies}, Nodes{}}) {
    const Nodes nodes = settle(sum(kDies, kSeconds), callers);
    EXPECT_FALSE(nodes[0].differs);
    EXPECT_FALSE(nodes[1].differs);
  }
}

}  // namespace
}  // namespace llamalloc
