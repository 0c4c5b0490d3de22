// SPDX-License-Identifier: Apache-2.0
#include "placement/placement.h"

#include <gtest/gtest.h>

#include <memory>

namespace llamalloc {
namespace {

class PlacementTest : public testing::Test {
 protected:
  static constexpr CallSite kSite{0x1000, 0x2000};
  static constexpr StackBounds kStack{0x1000, 0x9000};

  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
  Counters counters_;
  Placement placement_{*cache_, counters_};
};

TEST_F(PlacementTest, AFirstSeenContextIsAMissOnceAndTakesTheSitesClass) {
  auto first = placement_.choose(kSite, kStack, 3);
  EXPECT_TRUE(first.miss);
  EXPECT_EQ(first.group, PageGroup::unknown);
  EXPECT_FALSE(placement_.choose(kSite, kStack, 3).miss);
  placement_.publish(first.key, PredictionCache::site_key(kSite, 3), LifetimeClass::le_10s, false);
  EXPECT_EQ(placement_.choose(kSite, kStack, 3).group, PageGroup::brief);
  // The same site from another depth of the stack starts with what the site was.
  const auto other = placement_.choose({kSite.return_address, 0x3000}, kStack, 3);
  EXPECT_TRUE(other.miss);
  EXPECT_EQ(other.group, PageGroup::brief);
}

TEST_F(PlacementTest, WhatAModuleTaughtCanBeForgottenEvenIfOutliversChangedIt) {
  const auto choice = placement_.choose(kSite, kStack, 3);
  const uint64_t site = PredictionCache::site_key(kSite, 3);
  placement_.publish(choice.key, site, LifetimeClass::le_10ms, false, {2 | 4, 4});
  placement_.observe(choice.key, LifetimeClass::le_10ms, Nanos::seconds(5));
  EXPECT_EQ(cache_->forget_marked(2), 1u);
  EXPECT_TRUE(cache_->find(site).found);
  EXPECT_TRUE(placement_.choose(kSite, kStack, 3).miss);
}

TEST_F(PlacementTest, ReEvaluationKeepsTheLongerClass) {
  const auto choice = placement_.choose(kSite, kStack, 3);
  placement_.publish(choice.key, 0, LifetimeClass::le_10s, false);
  placement_.publish(choice.key, 0, LifetimeClass::le_10ms, true);
  EXPECT_EQ(placement_.choose(kSite, kStack, 3).lifetime, LifetimeClass::le_10s);
  placement_.publish(choice.key, 0, LifetimeClass::never, true);
  EXPECT_EQ(placement_.choose(kSite, kStack, 3).lifetime, LifetimeClass::never);
  EXPECT_EQ(counters_.get(Stat::predict_rechecks), 2u);
  EXPECT_EQ(counters_.get(Stat::predict_disagreements), 2u);
}

TEST_F(PlacementTest, WhileContextsAreOnlyLookedAtAllAreMixed) {
  placement_.part(Parts::nothing);
  const auto choice = placement_.choose(kSite, kStack, 3);
  placement_.publish(choice.key, 0, LifetimeClass::never, false);
  EXPECT_EQ(placement_.choose(kSite, kStack, 3).lifetime, LifetimeClass::mixed);
}

// Sessions, too, would leave the holes of a heap that was filled blind.
TEST_F(PlacementTest, WhereOnlyWhatStaysIsPartedAllOthersAreMixed) {
  placement_.part(Parts::what_stays);
  const auto session = placement_.choose(kSite, kStack, 3);
  placement_.publish(session.key, 0, LifetimeClass::le_100s, false);
  EXPECT_EQ(placement_.choose(kSite, kStack, 3).lifetime, LifetimeClass::mixed);
  const auto staying = placement_.choose(kSite, kStack, 4);
  placement_.publish(staying.key, 0, LifetimeClass::never, false);
  EXPECT_EQ(placement_.choose(kSite, kStack, 4).group, PageGroup::permanent);
}

TEST_F(PlacementTest, OutliversLengthenTheClassAndThenCostTheTrust) {
  const auto choice = placement_.choose(kSite, kStack, 3);
  placement_.publish(choice.key, 0, LifetimeClass::le_10ms, false);
  const auto observe = [&](Nanos lifetime) {
    return placement_.observe(choice.key, LifetimeClass::le_10ms, lifetime);
  };
  const auto now = [&] { return placement_.choose(kSite, kStack, 3).lifetime; };
  EXPECT_FALSE(observe(Nanos::millis(9)));
  EXPECT_TRUE(observe(Nanos::millis(500)));
  EXPECT_EQ(now(), LifetimeClass::le_10ms) << "the same page group: nothing to repair";
  EXPECT_TRUE(observe(Nanos::seconds(5)));
  EXPECT_EQ(now(), LifetimeClass::le_10s);
  EXPECT_TRUE(observe(Nanos::seconds(6)));
  EXPECT_EQ(now(), LifetimeClass::le_10s) << "allocated before the correction, which it fits";
  EXPECT_TRUE(observe(Nanos::seconds(50)));
  EXPECT_EQ(now(), LifetimeClass::mixed);
  EXPECT_TRUE(observe(Nanos::seconds(500)));
  EXPECT_EQ(counters_.get(Stat::outlivers), 5u);
  EXPECT_EQ(counters_.get(Stat::demotions), 2u);
}

TEST_F(PlacementTest, OneObjectThatStaysMakesTheContextMixed) {
  const auto choice = placement_.choose(kSite, kStack, 3);
  placement_.publish(choice.key, 0, LifetimeClass::le_10ms, false);
  for (const int age : {5, 50, 500, 5000})
    placement_.observe(choice.key, LifetimeClass::le_10ms, Nanos::seconds(age), age > 5);
  EXPECT_EQ(placement_.choose(kSite, kStack, 3).lifetime, LifetimeClass::mixed);
}

class SitePlacementTest : public PlacementTest {
 protected:
  static constexpr CallSite kElsewhere{kSite.return_address, 0x3000};

  Placement::Choice choose(CallSite site) { return placement_.choose(site, kStack, 3); }
  bool site_decides() const {
    uint16_t place;
    return cache_->decided.find(PathCache::path_of(kSite.return_address), site_shape(3), &place) ==
           PathCache::Kind::decided;
  }
  void settle_learned(const CallPath& path, LifetimeClass lifetime) {
    placement_.settle_learned_path(path, 3, choose(kSite).key, lifetime);
  }

  static constexpr CallPath kPath{.frames = {kSite.return_address}};
};

TEST_F(SitePlacementTest, AnswersForAllCallersOnceOneWasAskedFor) {
  settle_learned(kPath, LifetimeClass::le_10s);
  EXPECT_EQ(choose(kElsewhere).group, PageGroup::brief);
  EXPECT_EQ(choose(kElsewhere).key, 0u) << "the learner corrects it";
  EXPECT_TRUE(choose(kElsewhere).known);
  EXPECT_FALSE(choose(kElsewhere).miss);
}

TEST_F(SitePlacementTest, OneWithoutASlotKeepsItsAnswer) {
  settle_learned(kPath, LifetimeClass::le_10s);
  cache_->decided.clear();
  EXPECT_TRUE(choose(kSite).known);
  EXPECT_EQ(choose(kSite).group, PageGroup::brief);
  EXPECT_TRUE(choose(kElsewhere).miss);
}

TEST_F(SitePlacementTest, CallersThatWereSettledAnswerAtAnyHeight) {
  constexpr uintptr_t kCaller = 0x7777;
  uintptr_t words[16] = {};
  words[1] = words[5] = kCaller;
  const StackBounds stack{reinterpret_cast<uintptr_t>(words),
                          reinterpret_cast<uintptr_t>(words + 16)};
  const CallSite high{kSite.return_address, reinterpret_cast<uintptr_t>(words)};
  const CallSite low{kSite.return_address, reinterpret_cast<uintptr_t>(words + 4)};
  CallPath path{1, {kSite.return_address, kCaller}, {16}};
  placement_.settle_learned_path(path, 3, placement_.choose(high, stack, 3).key,
                                 LifetimeClass::le_10s);
  EXPECT_FALSE(site_decides());
  for (const CallSite& site : {high, low}) {
    const auto choice = placement_.choose(site, stack, 3);
    EXPECT_EQ(choice.group, PageGroup::brief);
    EXPECT_TRUE(choice.known && !choice.miss);
    EXPECT_EQ(choice.key, 0u) << "the learner corrects it";
  }
  EXPECT_TRUE(placement_.choose(low, stack, 4).miss) << "another size class";
  words[5] = kCaller + 1;
  EXPECT_TRUE(placement_.choose(low, stack, 3).miss) << "another caller";
}

TEST_F(SitePlacementTest, WhatIsExploredIsStillAskedForByContext) {
  const auto settled =
      placement_.settle_learned_path(kPath, 3, choose(kSite).key, LifetimeClass::le_10s, true);
  EXPECT_TRUE(settled.is_of_context());
  uint16_t place;
  EXPECT_EQ(cache_->decided.find(PathCache::path_of(kSite.return_address), site_shape(3), &place),
            PathCache::Kind::explored);
  EXPECT_EQ(class_in(place), LifetimeClass::le_10s);
  EXPECT_TRUE(choose(kSite).known);
  EXPECT_TRUE(choose(kElsewhere).miss);
}

TEST_F(SitePlacementTest, AnOutliverPartsTheSiteOfAModel) {
  placement_.settle_models_site(kSite, 3, choose(kSite).key, LifetimeClass::le_10ms);
  const auto before = choose(kElsewhere);
  EXPECT_EQ(before.lifetime, LifetimeClass::le_10ms);
  EXPECT_FALSE(before.is_of_context());
  EXPECT_TRUE(before.known);
  placement_.observe(before.key, LifetimeClass::le_10ms, Nanos::seconds(5));
  EXPECT_TRUE(site_decides()) << "no other context is asked for before this one is";

  EXPECT_EQ(choose(kElsewhere).lifetime, LifetimeClass::le_10s);
  EXPECT_TRUE(choose(kElsewhere).is_of_context());
  EXPECT_FALSE(site_decides());
  EXPECT_EQ(choose(kSite).lifetime, LifetimeClass::le_10ms);
  EXPECT_TRUE(choose(kSite).is_of_context());
  const auto third = choose({kSite.return_address, 0x4000});
  EXPECT_TRUE(third.miss);
  placement_.settle_models_site(kSite, 3, third.key, LifetimeClass::le_10ms);
  EXPECT_FALSE(site_decides()) << "it would hide the correction";
  EXPECT_EQ(counters_.get(Stat::demotions), 1u);

  placement_.observe(before.key, LifetimeClass::le_10ms, Nanos::seconds(50));
  EXPECT_EQ(choose(kElsewhere).lifetime, LifetimeClass::mixed) << "a second one costs the trust";
}

TEST_F(PlacementTest, WhatHasNoBoundHasNoOutlivers) {
  EXPECT_FALSE(placement_.observe(1, LifetimeClass::never, Nanos::seconds(100000)));
  EXPECT_FALSE(placement_.observe(1, LifetimeClass::mixed, Nanos::seconds(100000)));
}

}  // namespace
}  // namespace llamalloc
