// SPDX-License-Identifier: Apache-2.0
// What is out of date counts less and less (Learner::fade).
#include <deque>
#include <utility>
#include <vector>

#include "learning/test_learner.h"

namespace llamalloc {
namespace {

using LearnerFadeTest = LearnerTest;

// The program changes: objects that lived for seconds now die at once.
TEST_F(LearnerFadeTest, ABehaviourThatChangedIsLearnedAnew) {
  die_after({1}, 2000, Nanos::seconds(5));
  round();
  ASSERT_EQ(ask({1}).lifetime, LifetimeClass::le_10s);
  for (int i = 0; i < 60; ++i) {
    die_at_once({1}, 15);
    pass(Nanos::seconds(1));
    round();
  }
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10s) << "not before several windows agree";
  for (int i = 0; i < 300; ++i) {
    die_at_once({1}, 15);
    pass(Nanos::seconds(1));
    round();
  }
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10ms);
  die_after({1}, 1, Nanos::seconds(5));  // and back, at once
  round();
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10s);
}

// A load in waves: between them most objects die at once, but each wave has some that do not.
TEST_F(LearnerFadeTest, WavesDoNotFade) {
  for (int wave = 0; wave < 10; ++wave) {
    die_after({1}, kEnoughShort, Nanos::seconds(5));
    for (int i = 0; i < 40; ++i) {
      die_at_once({1}, 15);
      pass(Nanos::seconds(1));
      round();
      EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10s);
    }
  }
}

// What earlier runs knew fades, too, and so it does in the file.
TEST_F(LearnerFadeTest, APriorThatIsOutOfDateFades) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 2000;
  learner_.take_in(ContextPath(stack({1}).codes[0], size_bucket(kSize)).key(), 1, false, prior);
  learner_.show_all(tree_);
  for (int i = 0; i < 360; ++i) {
    die_at_once({1}, 15);
    pass(Nanos::seconds(1));
    round();
  }
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10ms);
  EXPECT_GE(node_of({1}).fades, 11);
}

// A restart: in the first minutes nothing can have lived as long as in the run before.
TEST_F(LearnerFadeTest, AYoungRunDoesNotFadeWhatAnOlderOneSaw) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_3s)] = 700;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 5'000;
  prior.deaths[static_cast<int>(LifetimeClass::le_100s)] = 14'300;
  prior.young[static_cast<int>(LifetimeClass::le_1000s)] = 900;
  prior.young[static_cast<int>(LifetimeClass::gt_1000s)] = prior.elders = 4'000;
  learner_.take_in(ContextPath(stack({1}).codes[0], size_bucket(kSize)).key(), 1, false, prior);
  learner_.show_all(tree_);
  std::deque<std::pair<Nanos, void*>> due;
  for (int i = 0; i < 1'100; ++i) {
    for (int n = 4 * i; n < 4 * i + 4; ++n)
      due.emplace_back(now_ + Nanos::seconds(1 + 7 * n % 96), born({1}));
    stay({1}, 1);
    pass(Nanos::seconds(1));
    std::erase_if(due, [&](const auto& row) {
      if (row.first > now_) return false;
      dies(row.second);
      return true;
    });
    round();
    ASSERT_EQ(node_of({1}).fades, 0) << i;
  }
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::mixed);
}

// An idle time is no proof: what died at once before it has not died again in each window.
TEST_F(LearnerFadeTest, AWindowInWhichLittleDiesSaysNothing) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 2000;
  learner_.take_in(site_key(1), 1, false, prior);
  learner_.show_all(tree_);
  die_at_once({1}, 2 * kEnoughToFade);
  rounds(400);
  EXPECT_EQ(node_of({1}).fades, 0);
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10s);
}

// Callers that each have little in a window are much together.
TEST_F(LearnerFadeTest, APriorFadesByWhatAllCallersSay) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 2000;
  learner_.take_in(site_key(1), 1, false, prior);
  for (int i = 0; i < 360; ++i) {
    for (uintptr_t caller = 10; caller < 18; ++caller) die_at_once({1, caller}, 1);
    rounds(1);
  }
  EXPECT_GE(node_of({1}).fades, 11);
  EXPECT_EQ(ask({1, 10}).lifetime, LifetimeClass::le_10ms);
}

// Both change: this run's own counts are halved, and what was counted before with them.
TEST_F(LearnerFadeTest, APriorFadesBesideWhatThisRunSaw) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 2000;
  learner_.take_in(site_key(1), 1, false, prior);
  die_after({1}, 2000, Nanos::seconds(5));
  round();
  for (int i = 0; i < 360; ++i) {
    die_at_once({1}, 15);
    rounds(1);
  }
  EXPECT_GE(node_of({1}).fades, 11);
  EXPECT_EQ(ask({1}).lifetime, LifetimeClass::le_10ms);
}

// So many that counts are halved again and again to fit: windows of one scale are compared.
TEST_F(LearnerFadeTest, APriorFadesBesideManySamples) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 20'000;
  learner_.take_in(site_key(1), 1, false, prior);
  for (int i = 0; i < 360; ++i) {
    die_at_once({1}, 1'500);
    rounds(1);
  }
  EXPECT_GE(node_of({1}).fades, 5);
}

TEST_F(LearnerFadeTest, AForkedChildHasWindowsOfItsOwn) {
  Evidence prior;
  prior.deaths[static_cast<int>(LifetimeClass::le_10s)] = 20'000;
  learner_.take_in(site_key(1), 1, false, prior);
  const auto busy = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) die_at_once({1}, 15), rounds(1);
  };
  busy(55);
  ASSERT_EQ(node_of({1}).agreed, 2);
  profiler_.forget_all(now_);
  learner_.begin_anew();
  busy(30);
  EXPECT_EQ(node_of({1}).fades, 0) << "its first window";
  busy(60);
  EXPECT_GE(node_of({1}).fades, 1);
}

// Those sampled for certain count while a context has few others, but not as new in each window.
TEST_F(LearnerFadeTest, FirstsDoNotFadeWhatIsKnown) {
  die_after({1}, 20, Nanos::seconds(200));
  for (int i = 0; i < 200; ++i) dies(born({1}, kSize, true));
  rounds(200);
  EXPECT_EQ(node_of({1}).now.deaths[static_cast<int>(LifetimeClass::le_1000s)], 20);
  EXPECT_NE(ask({1}).lifetime, LifetimeClass::le_10ms);
}

}  // namespace
}  // namespace llamalloc
