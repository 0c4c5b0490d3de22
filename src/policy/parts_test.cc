// SPDX-License-Identifier: Apache-2.0
#include "policy/parts.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace llamalloc {
namespace {

// `longer` of so many samples live some minutes, the rest up to a second, or some seconds.
Evidence part(int samples, int longer, LifetimeClass rest = LifetimeClass::le_1s) {
  Evidence evidence;
  evidence.deaths[static_cast<int>(rest)] = static_cast<uint16_t>(samples - longer);
  evidence.young[static_cast<int>(LifetimeClass::le_100s)] = static_cast<uint16_t>(longer);
  return evidence;
}

Parts parts_of(const std::vector<Evidence>& all) {
  Parts parts;
  for (const Evidence& one : all) parts.add(one);
  return parts;
}

constexpr LifetimeClass kSecond = LifetimeClass::le_1s;
constexpr LifetimeClass kSeconds = LifetimeClass::le_10s;

TEST(PartsTest, OnePartOfWhichSomeStayProvesNothing) {
  EXPECT_FALSE(parts_of({part(1000, 5)}).differ(kSecond));
}

TEST(PartsTest, WhereNothingStaysAllIsProven) {
  EXPECT_TRUE(parts_of({part(40, 0)}).differ(kSecond));
  EXPECT_TRUE(parts_of({part(40, 0), part(40, 0)}).differ(kSecond));
}

TEST(PartsTest, APartThatStaysAsAWholeProvesNothingOfTheRest) {
  EXPECT_TRUE(parts_of({part(40, 0), part(5, 5)}).differ(kSecond));
  EXPECT_FALSE(parts_of({part(200, 1), part(200, 1), part(5, 5)}).differ(kSecond));
}

TEST(PartsTest, WhatStaysInOneOfManyPartsIsNoChance) {
  std::vector<Evidence> all(20, part(50, 0));
  all[7] = part(50, 10);
  EXPECT_TRUE(parts_of(all).differ(kSecond));
}

TEST(PartsTest, WhatStaysIsWhatOutlivesTheGroupOfThePart) {
  std::vector<Evidence> all(20, part(50, 0, kSeconds));
  all[7] = part(50, 10, kSeconds);
  EXPECT_TRUE(parts_of(all).differ(kSeconds));
  for (int i = 0; i < 20; ++i) all[i] = part(50, i % 4 == 0, kSeconds);
  EXPECT_FALSE(parts_of(all).differ(kSeconds));
}

// As with Redis' replies, of which some wait for seconds, beside its strings.
TEST(PartsTest, SomeSecondsAreNoMinutes) {
  Evidence replies = part(30000, 0);
  replies.deaths[static_cast<int>(kSeconds)] = 400;
  const Parts parts = parts_of({replies, part(1500, 300, kSeconds)});
  EXPECT_TRUE(parts.differ(kSeconds));
  EXPECT_FALSE(parts.differ(kSecond));
}

TEST(PartsTest, WhereLessStaysThanTheTailRuleAllowsAllIsProven) {
  EXPECT_TRUE(parts_of({part(30000, 2), part(40, 0)}).differ(kSecond));
  EXPECT_FALSE(parts_of({part(30000, 6), part(40, 0)}).differ(kSecond));
}

TEST(PartsTest, WhatDiesWithinASecondMustNotStayByChanceEither) {
  std::vector<Evidence> all;
  for (int i = 0; i < 20; ++i) all.push_back(part(100, i % 4 == 0, i < 10 ? kSecond : kSeconds));
  EXPECT_FALSE(parts_of(all).differ(kSecond));  // halves differ, but not in what stays
}

// Whatever the share that stays, and however the samples are spread over the parts.
TEST(PartsTest, ChanceIsSeldomTakenForADifference) {
  std::mt19937_64 random(7);
  int differ = 0;
  for (const double share : {0.002, 0.005, 0.02, 0.1, 0.4}) {
    for (int round = 0; round < 400; ++round) {
      Parts parts;
      parts.add(part(50, 1));  // where nothing stays, nothing speaks against it
      for (int i = 0; i < 30; ++i) {
        const int samples = 2 + static_cast<int>(random() % 80);
        std::binomial_distribution<int> longer(samples, share);
        parts.add(part(samples, longer(random)));
      }
      differ += parts.differ(kSecond);
    }
  }
  EXPECT_LE(differ, 20) << "of 2000";
}

}  // namespace
}  // namespace llamalloc
