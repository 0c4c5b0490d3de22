// SPDX-License-Identifier: Apache-2.0
// How the engine keeps the answer to a miss: of what the learner corrects, for the site; of a
// model, for the context, so that outlivers can correct it.
#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace llamalloc {
namespace {

constexpr uint64_t kCode = 77;
constexpr size_t kSize = 100;

class SettleTest : public testing::Test {
 protected:
  Placement::Choice choose() {
    return engine_->choose_known(
        *cache_, {.size = kSize, .site = {0x1000, reinterpret_cast<uintptr_t>(stack_)}},
        [] { return kCode; }, [](StackTrace*) { FAIL() << "the site decides"; });
  }

  void learn(LifetimeClass lifetime) {
    ContextTree& tree = engine_->known_contexts.tree();
    ASSERT_TRUE(engine_->known_contexts.open(engine_->arena));
    tree.begin();
    ASSERT_TRUE(tree.add(key_, false, lifetime));
    tree.publish();
  }

  TestEngine<> made_;
  ThreadCache* const cache_ = made_.cache.get();
  Engine* const engine_ = made_.engine.get();
  uintptr_t stack_[16] = {};
  const uint64_t key_ = ContextPath(kCode, size_bucket(kSize)).key();
};

TEST_F(SettleTest, WhatIsLearnedIsKeptForTheSite) {
  learn(LifetimeClass::le_10ms);
  for (int i = 0; i < 2; ++i) {
    const Placement::Choice choice = choose();
    EXPECT_TRUE(choice.known);
    EXPECT_EQ(choice.key, 0u) << "the learner corrects it";
    EXPECT_EQ(choice.lifetime, LifetimeClass::le_10ms);
  }
}

// A program that has more of them than there is room for.
TEST_F(SettleTest, WhatIsNotCachedIsSlow) {
  learn(LifetimeClass::le_10ms);
  EXPECT_TRUE(choose().slow);
  EXPECT_FALSE(choose().slow);
  engine_->placement.cache().clear();
  EXPECT_TRUE(choose().slow);
}

// Who calls may matter all the same: the rare caller whose objects stay was not sampled yet.
TEST_F(SettleTest, WhileContextsAreExploredTheSiteDoesNotDecideAlone) {
  learn(LifetimeClass::le_10s);
  engine_->explore(true);
  Placement::Choice choice = choose();
  EXPECT_TRUE(choice.first) << "its object is to be sampled";
  EXPECT_EQ(choice.lifetime, LifetimeClass::le_10s);
  EXPECT_TRUE(choice.is_of_context());
  choice = choose();
  EXPECT_FALSE(choice.first) << "once";
  EXPECT_TRUE(choice.known);
  engine_->explore(false);
  choice = choose();
  EXPECT_FALSE(choice.first);
  EXPECT_EQ(choice.key, 0u) << "the site decides";
}

TEST_F(SettleTest, OutliversCorrectWhatAModelSays) {
  const uint8_t answer = static_cast<uint8_t>(LifetimeClass::le_10ms);
  ModelEvidence model;
  model.exact = NodeTable(&key_, &answer, 1, 1);
  ASSERT_TRUE(engine_->known_contexts.use(model, nullptr, engine_->arena));
  Placement::Choice choice = choose();
  EXPECT_TRUE(choice.known);
  EXPECT_EQ(choice.lifetime, LifetimeClass::le_10ms);
  ASSERT_NE(choice.key, 0u);
  EXPECT_EQ(choose().key, choice.key);
  EXPECT_TRUE(engine_->placement.observe(choice.key, choice.lifetime, Nanos::seconds(1000)));
  choice = choose();
  EXPECT_TRUE(choice.known);
  EXPECT_GT(choice.lifetime, LifetimeClass::le_10ms);
}

}  // namespace
}  // namespace llamalloc
