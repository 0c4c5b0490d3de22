// SPDX-License-Identifier: Apache-2.0
#include "learning/stay_prior.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace llamalloc {
namespace {

// `staying` of so many samples live some minutes, the rest up to three seconds.
Evidence context(int samples, int staying) {
  Evidence evidence;
  evidence.deaths[static_cast<int>(LifetimeClass::le_3s)] =
      static_cast<uint16_t>(samples - staying);
  evidence.young[static_cast<int>(LifetimeClass::le_100s)] = static_cast<uint16_t>(staying);
  return evidence;
}

StayPrior prior_of(const std::vector<Evidence>& all) {
  StayPrior prior;
  int passes = 0;
  bool moves = true;
  for (; moves; ++passes) {
    prior.begin();
    for (const Evidence& one : all) prior.add(one);
    moves = prior.end();
  }
  EXPECT_LT(passes, 50);
  return prior;
}

// Each keeps this share, so far as its samples show.
std::vector<Evidence> alike(int count, int samples, double share) {
  std::mt19937 random(7);
  std::binomial_distribution<int> staying(samples, share);
  std::vector<Evidence> all;
  for (int i = 0; i < count; ++i) all.push_back(context(samples, staying(random)));
  return all;
}

TEST(StayPriorTest, WithoutContextsFewSamplesAreEnough) {
  EXPECT_TRUE(StayPrior().is_sure(context(kEnoughShort, 0)));
}

TEST(StayPriorTest, WhereNothingStaysFewSamplesAreEnough) {
  EXPECT_TRUE(prior_of(alike(1, 40, 0)).is_sure(context(kEnoughShort, 0)));
  EXPECT_TRUE(prior_of(alike(200, 40, 0)).is_sure(context(kEnoughShort, 0)));
}

TEST(StayPriorTest, WhereOneInAHundredStaysInEachManyAreNeeded) {
  for (const double share : {0.003, 0.01, 0.03}) {
    const StayPrior prior = prior_of(alike(60, 46, share));
    EXPECT_FALSE(prior.is_sure(context(46, 0))) << share;
    EXPECT_GT(prior.hidden(46), share / 10) << share;
    EXPECT_TRUE(prior.is_sure(context(4000, 0))) << share;
  }
}

// As in Redis, where stored data and commands have contexts of their own.
TEST(StayPriorTest, WhereContextsKeepAllOrNothingFewAreEnough) {
  std::vector<Evidence> all = alike(30, 200, 0);
  for (int i = 0; i < 8; ++i) all.push_back(context(300, 300)), all.push_back(context(100, 20));
  EXPECT_TRUE(prior_of(all).is_sure(context(kEnoughShort, 0)));
}

// Beside those that do, a context of many samples is told apart, and one of few is not.
TEST(StayPriorTest, SamplesTellWhoIsLikeTheOthers) {
  std::vector<Evidence> all = alike(60, 46, 0.02);
  for (int i = 0; i < 20; ++i) all.push_back(context(3000, 0));
  const StayPrior prior = prior_of(all);
  EXPECT_FALSE(prior.is_sure(context(46, 0)));
  EXPECT_TRUE(prior.is_sure(context(1000, 0)));
}

StayPrior::Family family_of(const StayPrior& prior, const std::vector<Evidence>& all) {
  StayPrior::Family family = {};
  for (const Evidence& one : all) prior.add_to(&family, one);
  return family;
}

// What most contexts of a program are like says little of a call site of which one in 50 stays.
TEST(StayPriorTest, TheFamilyCountsMoreThanOthers) {
  const std::vector<Evidence> mixed = alike(30, 46, 0.02);
  std::vector<Evidence> all = alike(300, 46, 0);
  all.insert(all.end(), mixed.begin(), mixed.end());
  const StayPrior prior = prior_of(all);
  EXPECT_TRUE(prior.is_sure(context(46, 0), family_of(prior, alike(30, 46, 0))));
  EXPECT_FALSE(prior.is_sure(context(46, 0), family_of(prior, mixed)));
  EXPECT_TRUE(prior.is_sure(context(1000, 0), family_of(prior, mixed)));
}

// As in PHP or Erlang: one call site, many sizes, one object in 200 stays whatever its size.
TEST(StayPriorTest, SizesOfWhichOneIn200StaysAreNotShortLived) {
  const std::vector<Evidence> sizes = alike(60, 40, 0.005);
  const StayPrior prior = prior_of(sizes);
  EXPECT_FALSE(prior.is_sure(context(40, 0), family_of(prior, sizes)));
}

// But where what stays has a part of its own, the others are told from it.
TEST(StayPriorTest, APartThatStaysSaysLittleOfTheOthers) {
  std::vector<Evidence> parts = alike(20, 50, 0);
  parts[7] = context(50, 10);
  parts.push_back(context(40, 40));
  const StayPrior prior = prior_of(parts);
  EXPECT_TRUE(prior.is_sure(context(50, 0), family_of(prior, parts)));
}

TEST(StayPriorTest, WhatIsKnownToStayIsNoQuestion) {
  const StayPrior prior;
  EXPECT_FALSE(prior.is_sure(context(1000, 5)));
  EXPECT_TRUE(prior.is_sure(context(30000, 2))) << "the tail rule allows that";
}

TEST(StayPriorTest, WhatIsTooYoungSaysNothing) {
  StayPrior prior;
  Evidence young;
  young.young[0] = 40;
  const double before = prior.hidden(40);
  prior.begin(), prior.add(young), prior.end();
  EXPECT_EQ(prior.hidden(40), before);
}

// Contexts of more samples than powers can take.
TEST(StayPriorTest, ManySamplesAreNoTrouble) {
  const StayPrior prior = prior_of({context(65000, 20000), context(65000, 1), context(65000, 0)});
  EXPECT_TRUE(std::isfinite(prior.hidden(0)));
  EXPECT_GT(prior.hidden(0), 0);
  EXPECT_LT(prior.hidden(65000), StayPrior::kMostHidden);
}

}  // namespace
}  // namespace llamalloc
