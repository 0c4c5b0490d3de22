// SPDX-License-Identifier: Apache-2.0
#include "learning/learner.h"

#include <memory>
#include <vector>

#include "learning/test_learner.h"

namespace llamalloc {
namespace {

TEST_F(LearnerTest, KnowsNothingAtFirst) {
  EXPECT_FALSE(round());
  EXPECT_FALSE(ask({1, 2, 3}).known);
}

TEST_F(LearnerTest, TheSiteDecidesWhereAllDieYoung) {
  for (uintptr_t caller = 10; caller < 20; ++caller) die_at_once({1, caller, 3}, 20);
  EXPECT_TRUE(round());
  const Answer answer = ask({1, 99});  // of a caller that was never seen, too
  EXPECT_TRUE(answer.known);
  EXPECT_EQ(answer.lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(answer.level, 1);
}

TEST_F(LearnerTest, CallersAreToldApartThroughAWrapper) {
  die_at_once({1, 2, 10, 5}, 100);
  stay({1, 2, 11, 5}, 10);
  pass(Nanos::seconds(10));
  EXPECT_TRUE(round());
  EXPECT_EQ(ask({1, 2, 10, 5}).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask({1, 2, 10, 5}).level, 4);  // site, size, wrapper, caller
  EXPECT_EQ(ask({1, 2, 11, 5}).lifetime, LifetimeClass::never);
  EXPECT_FALSE(ask({1, 2, 12, 5}).known);  // a caller that was never seen is not guessed
}

// As on the stack of a coroutine, of which only the page in use can be read.
TEST_F(LearnerTest, AStackThatEndsEarlyIsNotTakenForThoseThatGoOn) {
  die_at_once({1, 2, 10, 5}, 100);
  die_at_once({1, 2, 11, 5}, 100);
  stay({1, 2}, 10);
  pass(Nanos::seconds(10));
  round();
  EXPECT_FALSE(ask({1, 2}).known);
  EXPECT_EQ(ask({1, 2, 10, 5}).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask({1, 2, 11, 5}).lifetime, LifetimeClass::le_10ms);
}

// Their parts would have too few to be decided, and each takes a node.
TEST_F(LearnerTest, FewSamplesAreNotToldApart) {
  for (uintptr_t caller = 10; caller < 10 + kEnoughShort - 1; ++caller) stay({1, 2, caller, 3}, 1);
  pass(Nanos::seconds(10));
  round();
  EXPECT_EQ(learner_.size(), 1u) << "the site";
  EXPECT_EQ(ask({1, 2, 99, 3}).lifetime, LifetimeClass::never);
  die_at_once({1, 2, 9, 3}, kEnoughShort);
  round();
  EXPECT_GT(learner_.size(), kEnoughShort) << "now they differ";
}

TEST_F(LearnerTest, SizesAreToldApart) {
  die_at_once({1, 2}, 100, 100);
  stay({1, 2}, 10, 1000);
  pass(Nanos::seconds(10));
  round();
  EXPECT_EQ(ask({1, 2}, 100).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask({1, 2}, 1000).lifetime, LifetimeClass::never);
  EXPECT_EQ(ask({1, 2}, 1000).level, 2);
}

TEST_F(LearnerTest, OneStackThatDoesBothIsMixed) {
  die_at_once({1, 2}, 100);
  stay({1, 2}, 10);
  pass(Nanos::seconds(10));
  round();
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::mixed);
}

TEST_F(LearnerTest, ACallerThatIsNotYetKnownIsNotTakenForItsSibling) {
  die_at_once({1, 10}, 100);
  stay({1, 11}, kEnoughLong - 1);
  pass(Nanos::seconds(10));
  round();
  EXPECT_EQ(ask({1, 10}).lifetime, LifetimeClass::le_10ms);
  EXPECT_FALSE(ask({1, 11}).known);
}

// Of a caller's few objects some died after half a minute, and the others are as old now. That
// decides nothing, but what dies within seconds is not to lie beside them.
TEST_F(LearnerTest, ACallerWhoseFewObjectsLiveLongIsToldApart) {
  keep_some({1, 11}, 6, [&] { die_after({1, 10}, 300, Nanos::seconds(5)); });
  EXPECT_EQ(ask({1, 10}).lifetime, LifetimeClass::le_10s);
  EXPECT_FALSE(ask({1, 11}).known);
  EXPECT_TRUE(node_of({1}).differed) << "in the next run, which may not meet these callers, too";
}

TEST_F(LearnerTest, SoItIsWhereTheOthersAreFew) {
  keep_some({1, 11}, 13, [&] { die_after({1, 10}, kEnoughShort - 10, Nanos::seconds(5)); });
  EXPECT_FALSE(ask({1, 10}).known) << "not yet; those of its sibling are no reason";
}

TEST_F(LearnerTest, ACallerOfWhichMostDieSoonIsNoReasonToLookAtCallers) {
  stay({1, 11}, 2);
  die_after({1, 11}, 12, Nanos::seconds(5));
  die_after({1, 10}, 300, Nanos::seconds(5));
  pass(Nanos::seconds(5));
  round();
  EXPECT_EQ(ask({1, 10}).level, 1);
}

TEST_F(LearnerTest, LengthensAtOnceAndShortensLater) {
  stay({1}, 10);
  pass(Nanos::seconds(10));
  round();
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::never);
  profiler_.forget_all(now_);
  die_at_once({1}, 100);
  round();
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::never);
  EXPECT_TRUE(round());
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10ms);
  stay({1}, 10);
  pass(Nanos::seconds(20));
  EXPECT_TRUE(round());
  EXPECT_NE(ask({1}).lifetime, LifetimeClass::le_10ms);
}

TEST_F(LearnerTest, WhatEarlierRunsKnowHoldsFromTheStart) {
  die_at_once({1, 10}, 100);
  stay({1, 11}, 10);
  pass(Nanos::seconds(10));
  round();
  auto later = std::make_unique<Learner>();
  ContextTree tree;
  ASSERT_TRUE(later->open(arena_));
  ASSERT_TRUE(tree.open(arena_));
  for (uint32_t i = 0; i < learner_.size(); ++i) {
    const Learner::Node& node = learner_.node(i);
    later->take_in(node.key, node.level, node.differed, node.now);
  }
  later->show_all(tree);
  for (uint32_t i = 0; i < learner_.size(); ++i) {
    const uint64_t key = learner_.node(i).key;
    EXPECT_EQ(tree.find(key).found, tree_.find(key).found);
    EXPECT_EQ(tree.find(key).deeper, tree_.find(key).deeper);
    EXPECT_EQ(tree.find(key).lifetime, tree_.find(key).lifetime);
  }
}

// One in a hundred stays of each caller's, as the samples of some show: those of the others are yet
// to come. Beside a caller all of whose objects stay they are not taken for such, either.
TEST_F(LearnerTest, CallersThatHaveShownNoneYetAreNotTakenForShortLived) {
  for (uintptr_t caller = 10; caller < 60; ++caller) {
    die_after({1, caller}, 46, Nanos::millis(1));
    if (caller % 3 == 0) stay({1, caller}, 1);
  }
  stay({1, 100}, 40);
  pass(Nanos::seconds(40));
  rounds(30);
  EXPECT_EQ(ask({1, 100}).lifetime, LifetimeClass::never);
  EXPECT_FALSE(dies_soon(ask({1, 10}).lifetime));
  EXPECT_NE(ask({1, 10}).lifetime, LifetimeClass::never);
  EXPECT_LT(learner_.shares().short_lived, 0.01);
  die_at_once({1, 10}, 5000);
  rounds(2);
  EXPECT_EQ(ask({1, 10}).lifetime, LifetimeClass::le_10ms) << "now it is sure";
}

// An earlier run saw one caller, and some of its objects stayed: its parts are not known.
TEST_F(LearnerTest, WhatEarlierRunsSawOfNoPartCounts) {
  Evidence prior;
  prior.deaths[0] = 20'000;
  prior.young[6] = prior.elders = 200;
  learner_.take_in(site_key(1), 1, false, prior);
  learner_.show_all(tree_);
  ASSERT_EQ(ask({1}).lifetime, LifetimeClass::mixed);
  die_at_once({1, 10}, 40);
  die_at_once({1, 11}, 40);
  rounds(3);
  EXPECT_EQ(ask({1, 10}).lifetime, LifetimeClass::mixed);
}

// A program that ends frees all: the deaths of its last seconds are not kept.
// After hours, what begins anew and stays is known within minutes.
TEST_F(LearnerTest, InALongRunWhatStaysIsKnownAfterMinutes) {
  pass(Nanos::seconds(20 * 3600));
  stay({1, 2}, 50);
  pass(Nanos::seconds(150));
  round();
  EXPECT_FALSE(ask({1, 2}).known);
  pass(Nanos::seconds(60));
  round();
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::never);
}

// A first fill on a busy machine: none has died yet, and most are older than those of earlier runs
// became.
TEST_F(LearnerTest, WhatIsInFlightDoesNotUndoWhatIsKnown) {
  Evidence died;
  died.deaths[static_cast<int>(LifetimeClass::le_3s)] = 100;
  const uint64_t key = ContextPath(stack({1, 2}).codes[0], size_bucket(kSize)).key();
  ASSERT_TRUE(learner_.take_in(key, 1, false, died));
  learner_.show_all(tree_);
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::le_3s);
  stay({1, 2}, 300);
  pass(Nanos::millis(500));
  round();
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::le_3s);
  pass(Nanos::seconds(4));
  round();
  EXPECT_TRUE(ask({1, 2}).known);
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::le_10s) << "some live as long as that";
  pass(Nanos::seconds(96));
  round();
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::never);
}

TEST_F(LearnerTest, TheLastFallIsNotSteady) {
  std::vector<void*> stored;
  for (int i = 0; i < 100; ++i) stored.push_back(born({1}));
  pass(Nanos::seconds(10));
  round();
  for (void* p : stored) dies(p);
  pass(Nanos::seconds(1));
  round();
  EXPECT_EQ(learner_.node(0).now.young[3], 0);
  EXPECT_EQ(learner_.node(0).steady.elders, 100);
  EXPECT_EQ(learner_.node(0).steady.deaths[3], 0);
  pass(Nanos::seconds(5));  // it goes on: so that was its load
  round();
  EXPECT_EQ(learner_.node(0).steady.elders, 0);
}

// Of a large heap: the rounds fall into it.
TEST_F(LearnerTest, NorIsAFallThatTakesTenSeconds) {
  std::vector<void*> stored;
  for (int i = 0; i < 100; ++i) stored.push_back(born({1}));
  pass(Nanos::seconds(10));
  round();
  while (!stored.empty()) {
    for (int i = 0; i < 11 && !stored.empty(); ++i, stored.pop_back()) dies(stored.back());
    pass(Nanos::seconds(1));
    round();
    ASSERT_EQ(learner_.node(0).steady.elders, 100);
  }
}

// A look at the callers takes time in each allocation, and would save nothing.
TEST_F(LearnerTest, WhatDiesWithinSecondsIsNotToldApart) {
  die_at_once({1, 3}, 100);
  die_after({1, 2}, 100, Nanos::seconds(5));
  round();
  EXPECT_EQ(ask({1, 4}).lifetime, LifetimeClass::le_10s) << "no caller is asked for";
  EXPECT_EQ(ask({1, 3}).lifetime, LifetimeClass::le_10s);
}

// A connection's buffers, and those of replies in the same function: few of them hold a page.
TEST_F(LearnerTest, LargeObjectsThatDieWithinSecondsAreToldApart) {
  die_at_once({1, 3}, 100, kWorthALook);
  die_after({1, 2}, 100, Nanos::seconds(5), kWorthALook);
  round();
  EXPECT_EQ(ask({1, 3}, kWorthALook).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask({1, 2}, kWorthALook).lifetime, LifetimeClass::le_10s);
  die_after({1, 4}, 100, Nanos::millis(20), kWorthALook);
  round();
  EXPECT_EQ(ask({1, 4}, kWorthALook).lifetime, LifetimeClass::le_100ms);
}

// Two objects of a backlog that are older than all that died seem to stay, until they die.
TEST_F(LearnerTest, WhatOnlySeemedToDifferIsForgotten) {
  die_at_once({1, 3}, 100);
  std::vector<void*> backlog;
  for (int i = 0; i < 40; ++i) backlog.push_back(born({1, 2}));
  pass(Nanos::seconds(5));
  round();
  EXPECT_FALSE(ask({1, 4}).known);
  for (void* p : backlog) dies(p);
  for (int i = 0; i < 3; ++i) pass(Nanos::seconds(1)), round();
  EXPECT_TRUE(ask({1, 4}).known);
}

// What stays may be allocated by the parent alone.
TEST_F(LearnerTest, AForkedChildKnowsWhatDiffers) {
  die_at_once({1, 3}, 100);
  stay({1, 2}, 10);
  pass(Nanos::seconds(10));
  round();
  ASSERT_FALSE(ask({1, 4}).known);
  learner_.begin_anew();
  profiler_.forget_all(now_);
  die_at_once({1, 3}, 100);
  for (int i = 0; i < 3; ++i) pass(Nanos::seconds(1)), round();
  EXPECT_FALSE(ask({1, 4}).known);
  EXPECT_EQ(ask({1, 3}).lifetime, LifetimeClass::le_10ms);
}

// The child has met none of the site's callers yet, and its first look at them is the tree's.
TEST_F(LearnerTest, AForkedChildKnowsWhatDiffersAtSitesThatItHasNotSampled) {
  die_at_once({1, 3}, 100);
  stay({1, 2}, 10);
  pass(Nanos::seconds(10));
  round();
  ASSERT_EQ(ask({1, 3}).lifetime, LifetimeClass::le_10ms);
  learner_.begin_anew();
  profiler_.forget_all(now_);
  die_at_once({9}, 100);
  rounds(3);
  EXPECT_EQ(ask({1, 3}).lifetime, LifetimeClass::le_10ms);
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::never);
}

// A load drops and the program ends at once: what is known to stay is there yet, so it is a drop.
TEST_F(LearnerTest, ADropThatLeavesWhatStaysIsKeptAtOnce) {
  stay({2}, 10);
  pass(Nanos::seconds(10));
  round();
  ASSERT_EQ(ask({2}).lifetime, LifetimeClass::never);
  std::vector<void*> wave;
  for (int i = 0; i < 100; ++i) wave.push_back(born({1}));
  round();
  for (void* p : wave) dies(p);
  pass(Nanos::millis(500));
  round();
  EXPECT_EQ(node_of({1}).steady.deaths[0], 100);
}

// The same, but what is known to stay goes, too: the program ends.
TEST_F(LearnerTest, TheEndOfAllIsNotADrop) {
  std::vector<void*> all;
  for (int i = 0; i < 10; ++i) all.push_back(born({2}));
  pass(Nanos::seconds(10));
  round();
  for (int i = 0; i < 100; ++i) all.push_back(born({1}));
  round();
  for (void* p : all) dies(p);
  pass(Nanos::millis(500));
  round();
  EXPECT_EQ(node_of({1}).steady.deaths[0], 0);
  EXPECT_EQ(node_of({2}).steady.elders, 10);
}

TEST_F(LearnerTest, SharesOfWhatWasSampled) {
  die_at_once({1}, 300);
  stay({2}, 100);
  pass(Nanos::seconds(10));
  round();
  EXPECT_NEAR(learner_.shares().short_lived, 0.75, 0.01);
  EXPECT_NEAR(learner_.shares().long_lived, 1.0, 0.01);  // all that is alive
}

// A child that was forked a moment ago, beside what its parent holds.
TEST_F(LearnerTest, AFewSamplesAreNoShare) {
  die_at_once({1}, 300);
  stay({2}, 100);
  pass(Nanos::seconds(10));
  round();
  profiler_.forget_all(now_);
  learner_.begin_anew();
  die_at_once({1}, kEnoughShort - 1);
  rounds(1);
  EXPECT_EQ(learner_.shares().short_lived, 0);
  die_at_once({1}, 1);
  rounds(1);
  EXPECT_EQ(learner_.shares().short_lived, 1);
}

// They stand for no bytes.
TEST_F(LearnerTest, FirstObjectsAreNoShareOfWhatIsAllocated) {
  die_at_once({1}, 300);
  for (uintptr_t site = 10; site < 210; ++site)
    for (int i = 0; i < 5; ++i) dies(born({site}, kSize, true));
  stay({2000}, 20);
  pass(Nanos::seconds(10));
  round();
  EXPECT_GT(learner_.shares().short_lived, 0.9);
}

// Two of 200 stay, as 32 others cannot refute.
TEST_F(LearnerTest, FirstObjectsCountUntilOthersAreAsMany) {
  std::vector<void*> firsts;
  for (int i = 0; i < 200; ++i) firsts.push_back(born({1}, kSize, true));
  for (int i = 2; i < 200; ++i) dies(firsts[i]);
  pass(Nanos::seconds(30));
  die_at_once({1}, kEnoughShort);
  rounds(3);
  const Answer answer = ask({1});
  EXPECT_FALSE(answer.known && dies_soon(answer.lifetime));
}

// They lie among those of unknown lifetimes, and pin those pages with or without placement.
TEST_F(LearnerTest, WhatIsNotDecidedCountsAsNeitherShortNorLong) {
  stay({2}, 100);
  pass(Nanos::seconds(10));
  stay({3}, 100);
  round();
  EXPECT_FALSE(ask({3}).known);
  EXPECT_EQ(learner_.shares().short_lived, 0);
  EXPECT_NEAR(learner_.shares().long_lived, 0.5, 0.01);
}

// 5 MiB of survivors in a gigabyte: one run in 25 samples fewer than two of them.
TEST_F(LearnerTest, WhatDoesNothingButStayCountsAsLongHoweverRare) {
  die_at_once({1}, 300);
  stay({2}, kEnoughLong - 1);
  pass(Nanos::seconds(10));
  round();
  EXPECT_FALSE(ask({2}).known);
  EXPECT_NEAR(learner_.shares().long_lived, 1.0, 0.01);
}

TEST_F(LearnerTest, ManySuchContextsAreOfTheKindThatSeldomComes) {
  die_at_once({1}, 300);
  for (uintptr_t site = 2; site < 12; ++site) stay({site}, kEnoughLong - 1);
  pass(Nanos::seconds(10));
  round();
  EXPECT_EQ(learner_.shares().long_lived, 0);
}

// An interpreter: all objects have one call site, and some stay, whatever their size. Most sizes
// have shown none.
TEST_F(LearnerTest, SizesThatDifferByChanceAreNotShortLived) {
  for (size_t size = 1; size <= 20; ++size) die_at_once({1}, 50, size * 128);
  for (size_t size = 1; size <= 20; size += 4) stay({1}, 1, size * 128);
  stay({2}, 20);
  pass(Nanos::seconds(11));
  round();
  EXPECT_EQ(learner_.shares().short_lived, 0);
}

TEST_F(LearnerTest, SizesOfWhichOneStaysAreShortLived) {
  for (size_t size = 1; size <= 20; ++size) die_at_once({1}, 50, size * 128);
  stay({1}, 5, 128);
  stay({2}, 20);
  pass(Nanos::seconds(10));
  round();
  EXPECT_NEAR(learner_.shares().short_lived, 950 / 1025.0, 0.01);
}

// A trough leaves some of {1}: they pin the pages of all that died with them.
TEST_F(LearnerTest, WhatDiedSinceThePeakIsPartedIfLittleOfItsKindStays) {
  die_after({1}, 300, Nanos::seconds(5));
  std::vector<void*> wave;
  for (int i = 0; i < 200; ++i) wave.push_back(born({1}));
  die_at_once({2}, 300);  // holds nothing, however much it allocates
  stay({3}, 50);
  round();
  EXPECT_EQ(learner_.shares().peak, 250 * kSize);
  for (int i = 0; i < 170; ++i) dies(wave[static_cast<size_t>(i)]);
  round();
  EXPECT_EQ(learner_.shares().parted, 0);
  for (int i = 170; i < 198; ++i) dies(wave[static_cast<size_t>(i)]);
  round();
  EXPECT_NEAR(learner_.shares().parted, 0.9, 0.01);  // (198 - 10 x 2) / 198
}

TEST_F(LearnerTest, WhatDiedWithoutAVerdictIsNotParted) {
  std::vector<void*> wave;
  for (int i = 0; i < 20; ++i) wave.push_back(born({1}));
  round();
  for (void* p : wave) dies(p);
  round();
  EXPECT_FALSE(ask({1}).known);
  EXPECT_EQ(learner_.shares().parted, 0);
}

// A server whose parent held much more: the child's own peak is what it is measured by.
TEST_F(LearnerTest, AForkedChildHasAPeakOfItsOwn) {
  std::vector<void*> of_parent;
  for (int i = 0; i < 3000; ++i) of_parent.push_back(born({4}));
  round();
  for (void* p : of_parent) dies(p);
  rounds(2);
  ASSERT_EQ(learner_.shares().peak, 3000 * kSize);
  profiler_.forget_all(now_);
  learner_.begin_anew();
  EXPECT_EQ(learner_.shares().peak, 0);
  stay({3}, 400);
  rounds(1);
  EXPECT_EQ(learner_.shares().peak, 400 * kSize);
  EXPECT_EQ(learner_.shares().parted, 1) << "nothing has died since then";
}

TEST_F(LearnerTest, AClockThatJumpsBackUnlearnsNothing) {
  die_at_once({1, 2}, 200);
  rounds(20);
  const Answer before = ask({1, 2});
  ASSERT_TRUE(before.known);
  pass(Nanos::seconds(-15));
  die_after({1, 2}, 50, Nanos::millis(1));
  die_at_once({3, 4}, 200);
  rounds(20);
  EXPECT_TRUE(learner_.is_consistent());
  EXPECT_TRUE(ask({1, 2}).known && ask({1, 2}).lifetime == before.lifetime);
  EXPECT_TRUE(ask({3, 4}).known && ask({3, 4}).lifetime == before.lifetime);
}

// As when the process was stopped: what was in flight then seems old. That fades.
TEST_F(LearnerTest, AClockThatJumpsAheadIsGotOver) {
  die_at_once({1, 2}, 200);
  die_at_once({3, 4}, 200);
  rounds(20);
  const Answer before = ask({3, 4});
  std::vector<void*> in_flight;
  for (int i = 0; i < 5; ++i) in_flight.push_back(born({1, 2}));
  pass(Nanos::seconds(3600));
  round();
  for (void* p : in_flight) dies(p);
  for (int i = 0; i < 180; ++i) die_after({1, 2}, 100, Nanos::seconds(1)), round();
  EXPECT_TRUE(learner_.is_consistent());
  EXPECT_EQ(ask({1, 2}).lifetime, LifetimeClass::le_3s);
  EXPECT_EQ(ask({3, 4}).lifetime, before.lifetime) << "nothing of it was in flight";
}

TEST_F(LearnerTest, ContextsWithoutEndStayBounded) {
  for (uintptr_t caller = 1; caller < 30000; ++caller) stay({caller, caller + 1}, 4);
  pass(Nanos::seconds(10));
  round();
  EXPECT_LE(learner_.size(), Learner::kMostNodes);
  EXPECT_TRUE(learner_.is_consistent());
}

}  // namespace
}  // namespace llamalloc
