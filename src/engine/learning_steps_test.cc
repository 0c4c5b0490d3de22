// SPDX-License-Identifier: Apache-2.0
// When samples begin and how far apart they are, and when the worker makes rounds.
#include "engine/learning_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/test_engine.h"

namespace llamalloc {
namespace {

class StepsTest : public testing::Test {
 protected:
  int rounds_in(Nanos time) {
    int rounds = 0;
    for (const Nanos end = pages_.time + time; pages_.time < end;
         pages_.time = pages_.time + Nanos::millis(100))
      steps_->step(pages_.time, [&](Nanos now) { ++rounds, steps_->round(now); });
    return rounds;
  }

  TestEngine<> made_;
  FakePages& pages_ = made_.pages;
  Engine& engine_ = *made_.engine;
  std::unique_ptr<LearningSteps> steps_ = std::make_unique<LearningSteps>(engine_);
};

class LearningStepsTest : public StepsTest {
 protected:
  void SetUp() override {
    engine_.options.sample_interval = 0;
    ASSERT_TRUE(steps_->open());
    steps_->begin(pages_.time);
  }
  void fill(size_t bytes) {
    for (; bytes >= kRunMax; bytes -= kRunMax) engine_.allocate(nullptr, {.size = kRunMax});
  }
};

TEST_F(LearningStepsTest, SamplesBeginWithAHeapThatIsWorthIt) {
  steps_->sample_if_worth_it(false);
  EXPECT_FALSE(engine_.profiler.on());
  fill(LearningRun::kLeastHeap);
  steps_->sample_if_worth_it(false);
  EXPECT_TRUE(engine_.profiler.on());
  EXPECT_EQ(engine_.profiler.interval(), LearningRun::kInterval);
}

// Who began does not stop by itself, and who found others' samples does not begin.
TEST_F(LearningStepsTest, OthersDecideOnceTheyDid) {
  fill(LearningRun::kLeastHeap);
  steps_->sample_if_worth_it(true);
  EXPECT_FALSE(engine_.profiler.on());
  steps_->sample_if_worth_it(false);
  EXPECT_FALSE(engine_.profiler.on());
}

TEST_F(LearningStepsTest, ContextsAreExploredAtFirstAndThenNowAndThen) {
  rounds_in(Nanos::seconds(1));
  EXPECT_FALSE(engine_.explores) << "nothing is placed by lifetime";
  engine_.options.segregate.value = Segregate::always;
  const auto seconds_in = [&](int seconds) {
    int explored = 0;
    for (int i = 0; i < seconds; ++i) rounds_in(Nanos::seconds(1)), explored += engine_.explores;
    return explored;
  };
  EXPECT_EQ(seconds_in(15), 15);
  EXPECT_NEAR(seconds_in(45), 5, 1);
  EXPECT_NEAR(seconds_in(60), 5, 1);
  engine_.options.segregate.value = Segregate::never;
  EXPECT_EQ(seconds_in(60), 0);
}

TEST_F(LearningStepsTest, TheIntervalFollowsTheOption) {
  engine_.options.sample_interval = 64 << 10;
  steps_->sample_if_worth_it(false);
  EXPECT_EQ(engine_.profiler.interval(), 64u << 10);
  engine_.options.sample_interval = 128 << 10;
  steps_->sample_if_worth_it(false);
  EXPECT_EQ(engine_.profiler.interval(), 128u << 10);
}

TEST_F(LearningStepsTest, ARoundASecond) {
  EXPECT_EQ(rounds_in(Nanos::seconds(5)), 5);
}

TEST_F(LearningStepsTest, PlacementFollowsOptionAndGate) {
  rounds_in(Nanos::seconds(1));
  EXPECT_FALSE(engine_.placement_on);
  engine_.options.segregate.value = Segregate::always;
  rounds_in(Nanos::seconds(1));
  EXPECT_TRUE(engine_.placement_on);
  engine_.options.segregate.value = Segregate::never;
  rounds_in(Nanos::seconds(1));
  EXPECT_FALSE(engine_.placement_on);
  EXPECT_FALSE(steps_->places());
}

// ----- Before a trial -----

class TroughTest : public LearningStepsTest {
 protected:
  static constexpr size_t kRun = size_t{512} << 10;
  void wave() {
    while (engine_.heap.live_bytes() < size_t{256} << 20)
      runs_.push_back(engine_.allocate(nullptr, {.size = kRun}));
  }
  // One in eight stays, in every other huge page.
  void trough() {
    for (size_t i = 0; i < runs_.size(); ++i)
      if (i % 8 != 0) engine_.deallocate(nullptr, runs_[i], engine_.heap.find(runs_[i]), kRun);
    runs_.clear();
  }
  void sample(uintptr_t site, int count, bool dies) {
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = trace.codes[0] = site;
    trace.images[0] = 1;
    for (int i = 0; i < count; ++i) {
      void* p = reinterpret_cast<void*>(next_ += 64);
      engine_.profiler.on_alloc(p, kRun, trace, 0, LifetimeClass::mixed, pages_.time, 1, 0, 0,
                                false);
      if (dies) engine_.profiler.on_free(p, pages_.time, 1, 0);
    }
  }
  // A trough in which placement would save much, as soon as the gate knows what stays.
  void prepare() {
    wave();
    rounds_in(Nanos::seconds(3));
    trough();
    rounds_in(Nanos::seconds(12));
    sample(0x1001, 200, true);
    sample(0x2001, 20, false);
    pages_.time = pages_.time + Nanos::seconds(11);
  }
  void arm() {
    prepare();
    rounds_in(Nanos::seconds(8));
    ASSERT_TRUE(steps_->run.gate().is_armed());
  }

  std::vector<void*> runs_;
  uintptr_t next_ = 1 << 20;
};

TEST_F(TroughTest, ContextsAreExploredWhenTheLoadComesBack) {
  arm();
  EXPECT_TRUE(engine_.predictions_on && engine_.explores);
  EXPECT_FALSE(engine_.placement_on);
  wave();
  rounds_in(Nanos::seconds(19));
  EXPECT_TRUE(engine_.predictions_on && engine_.explores);
  rounds_in(Nanos::seconds(2));
  EXPECT_FALSE(engine_.predictions_on || engine_.explores);
  EXPECT_FALSE(engine_.placement_on);
}

// Lookups take time, whatever for.
TEST_F(TroughTest, WhereItDoesNotTheyAreForAMinute) {
  arm();
  rounds_in(Nanos::seconds(25));
  EXPECT_TRUE(engine_.predictions_on && engine_.explores);
  rounds_in(Nanos::seconds(15));
  EXPECT_FALSE(engine_.predictions_on || engine_.explores);
  rounds_in(Nanos::seconds(900));
  EXPECT_FALSE(steps_->run.gate().came_back()) << "only what counts as the peak sank";
  EXPECT_FALSE(engine_.predictions_on || engine_.explores);
  wave();
  rounds_in(Nanos::seconds(1));
  EXPECT_TRUE(engine_.predictions_on && engine_.explores);
}

// Lifetimes may separate by what is rare. In each of many runs that would be looked for in vain.
TEST_F(TroughTest, InEarlyRunsATroughThatPinsMuchIsEnough) {
  for (const uint32_t runs : {2, 3}) {
    steps_ = std::make_unique<LearningSteps>(engine_);
    ASSERT_TRUE(steps_->open());
    LearnedState state;
    state.header.runs = runs;
    steps_->run.take_in(state, LearningRun::GateFrom::this_build, engine_.known_contexts.tree(),
                        engine_.system);
    steps_->begin(pages_.time);
    wave();
    rounds_in(Nanos::seconds(3));
    trough();
    rounds_in(Nanos::seconds(5));
    EXPECT_FALSE(steps_->run.gate().is_armed());
    EXPECT_EQ(engine_.predictions_on, runs == 2);
    EXPECT_EQ(engine_.explores, runs == 2);
    steps_->finish(pages_.time, [](Nanos) {});
  }
}

TEST_F(TroughTest, AProcessThatEndsDoesNotBegin) {
  prepare();
  steps_->finish(pages_.time, [&](Nanos now) { steps_->round(now); });
  EXPECT_TRUE(steps_->run.gate().is_armed());
  EXPECT_FALSE(engine_.predictions_on || engine_.explores);
}

TEST_F(TroughTest, NorDoesOneThatHasPlacedObjects) {
  arm();
  engine_.options.segregate.value = Segregate::always;
  rounds_in(Nanos::seconds(1));
  EXPECT_TRUE(engine_.predictions_on && engine_.placement_on);
  engine_.options.segregate.value = Segregate::automatic;
  rounds_in(Nanos::seconds(1));
  EXPECT_FALSE(engine_.predictions_on || engine_.placement_on);
}

TEST_F(TroughTest, NorDoesOneWithAModel) {
  engine_.foresees = true;
  arm();
  EXPECT_FALSE(engine_.predictions_on || engine_.explores);
}

TEST_F(TroughTest, TheSentenceSaysSo) {
  arm();
  char text[Gate::kSentence];
  steps_->describe(text, sizeof(text));
  EXPECT_NE(std::string(text).find("contexts are explored"), std::string::npos) << text;
}

TEST_F(TroughTest, NothingIsExploredWhereTheOptionDecides) {
  arm();
  engine_.options.segregate.value = Segregate::never;
  rounds_in(Nanos::seconds(1));
  EXPECT_FALSE(engine_.predictions_on || engine_.explores);
}

// ----- What lookups take -----

class LookupsTest : public LearningStepsTest {
 protected:
  void SetUp() override {
    LearningStepsTest::SetUp();
    cache_.magazines.initialise();
    engine_.start_sampling(512, pages_.time);
    engine_.start_countdown(&cache_);
  }
  // Nanoseconds for an allocation of a site, by the counter.
  double price(uintptr_t site) {
    constexpr int kAllocations = 20'000;
    const uint64_t before = engine_.counters.get(Stat::predict_lookup_nanos);
    for (int i = 0; i < kAllocations; ++i) {
      void* p = engine_.allocate(&cache_, {.size = 64, .site = {site, 0}});
      engine_.deallocate(&cache_, p, engine_.heap.find(p), kUnknownSize);
    }
    const uint64_t nanos = engine_.counters.get(Stat::predict_lookup_nanos) - before;
    return static_cast<double>(nanos) / kAllocations;
  }
  // That so many callers decide.
  void teach(uintptr_t site, int callers) {
    made_.world.callers = callers;
    ContextTree& tree = engine_.known_contexts.tree();
    tree.begin();
    ContextPath path(site, size_bucket(64));
    const int last = callers == 0 ? 1 : 2 + callers;
    for (int level = 1; level < last; ++level) {
      ASSERT_TRUE(tree.add(path.key(), true, LifetimeClass::mixed));
      path.descend(site + static_cast<uintptr_t>(path.next_frame()));
    }
    ASSERT_TRUE(tree.add(path.key(), false, LifetimeClass::le_3s));
    tree.publish();
  }

  std::unique_ptr<ThreadCache> own_ = std::make_unique<ThreadCache>();
  ThreadCache& cache_ = *own_;
};

TEST_F(LookupsTest, SamplesTellWhatTheyWouldTake) {
  made_.world.gives_codes = true;
  teach(0x1000, 2);
  const auto of_two = static_cast<double>(price_of_lookup(2).n);
  EXPECT_NEAR(price(0x1000), of_two, of_two / 10);
  teach(0x1000, 0);
  const auto of_site = static_cast<double>(price_of_lookup(0).n);
  EXPECT_NEAR(price(0x1000), of_site, of_site / 10);
}

// Or a first run that fills a heap at once is judged too dear before anything is learned.
TEST_F(LookupsTest, WhatIsNotKnownYetCountsAsTheCheapest) {
  const auto of_site = static_cast<double>(price_of_lookup(0).n);
  EXPECT_NEAR(price(0x1000), of_site, of_site / 10) << "nothing is known";
  made_.world.gives_codes = true;
  teach(0x1000, 2);
  EXPECT_NEAR(price(0x2000), of_site, of_site / 10) << "another site";
}

TEST_F(LookupsTest, WhileObjectsArePlacedThoseOfSamplesAreTimed) {
  engine_.place_by_lifetime(Placing::all);
  cache_.predicting = true;
  EXPECT_EQ(price(0x1000), 0) << "virtual time stands";
  pages_.reading_takes = Nanos{40};
  const double timed = price(0x1000);
  EXPECT_EQ(timed, 0) << "what it takes to read the clock is no lookup";
  pages_.reading_takes = Nanos{1000};
  const auto of_unknown = static_cast<double>(price_of_lookup(kCallersOfUnknown).n);
  EXPECT_NEAR(price(0x1000), of_unknown, of_unknown / 10) << "so slow a clock tells nothing";
}

TEST_F(LookupsTest, WhatIsNotCachedCostsMore) {
  made_.world.choice.slow = true;
  const auto of_unknown = static_cast<double>(price_of_lookup(kCallersOfUnknown).n);
  EXPECT_NEAR(price(0x1000), of_unknown, of_unknown / 10) << "only samples are looked up";
  engine_.place_by_lifetime(Placing::all);
  cache_.predicting = true;
  const auto of_miss = static_cast<double>(kPriceOfMiss.n);
  EXPECT_NEAR(price(0x1000), of_miss, of_miss / 10);
}

// ----- With a model and without learning -----

constexpr GateKept kProof{GateVerdict::on_trial, 0, {1, 50, 400, 200, 2000}, {}, 500};

class ModelStepsTest : public StepsTest {
 protected:
  void SetUp() override {
    engine_.foresees = true;
    steps_->begin(pages_.time);
  }
  // Samples of so many bytes that are freed at that age.
  void live_and_die(LifetimeClass predicted, Nanos lifetime) {
    engine_.trust.freed(predicted, lifetime, 64 << 20);
  }
  std::string sentence() const {
    char text[Gate::kSentence];
    steps_->run.gate().describe(text, sizeof(text));
    return text;
  }
};

TEST_F(ModelStepsTest, AModelThatProvesNothingStartsBlind) {
  EXPECT_FALSE(steps_->places());
  rounds_in(Nanos::seconds(3));
  EXPECT_FALSE(engine_.placement_on);
}

TEST_F(ModelStepsTest, OneThatBringsProofPlacesFromTheStart) {
  steps_->run.take_evidence(kProof);
  EXPECT_TRUE(steps_->places());
  live_and_die(LifetimeClass::le_3s, Nanos::millis(1));
  rounds_in(Nanos::seconds(3));
  EXPECT_TRUE(engine_.placement_on);
}

TEST_F(ModelStepsTest, OneWhosePredictionsFailIsSwitchedOffWithinSeconds) {
  steps_->run.take_evidence(kProof);
  engine_.start_placing(steps_->places());
  live_and_die(LifetimeClass::le_3s, Nanos::seconds(20));
  rounds_in(Nanos::seconds(2));
  EXPECT_FALSE(engine_.placement_on);
  EXPECT_NE(sentence().find("100 % of those freed lived longer"), std::string::npos) << sentence();
  EXPECT_EQ(steps_->run.gate().kept().verdict, GateVerdict::mistaken);
}

// A machine that slept: what was alive then is old now, whatever was predicted.
TEST_F(ModelStepsTest, APauseSaysNothingOfPredictions) {
  steps_->run.take_evidence(kProof);
  engine_.start_placing(steps_->places());
  rounds_in(Nanos::seconds(2));
  pages_.time = pages_.time + Nanos::seconds(30);
  live_and_die(LifetimeClass::le_3s, Nanos::seconds(31));
  rounds_in(Nanos::seconds(10));
  EXPECT_TRUE(engine_.placement_on);
}

TEST_F(ModelStepsTest, WhatHelpedElsewhereIsOnTrialHere) {
  GateKept elsewhere = kProof;
  elsewhere.verdict = GateVerdict::helps;
  steps_->run.take_evidence(elsewhere);
  EXPECT_TRUE(steps_->places());
  EXPECT_EQ(steps_->run.gate().kept().verdict, GateVerdict::on_trial);
  EXPECT_EQ(steps_->placing(), Placing::all);
}

// The load may be higher again in an hour.
TEST_F(ModelStepsTest, WhereItOnlyRestsPagesKeepTheirGroups) {
  engine_.place_by_lifetime(Placing::all);
  engine_.heap.take_one(bin_of(PageGroup::transient, size_class_of(64), false));
  engine_.place_by_lifetime(Placing::rests);
  EXPECT_FALSE(engine_.placement_on);
  EXPECT_EQ(engine_.heap.pages().in_use_by(PageGroup::transient), 1u);
}

// Contexts of `session` turn out to be brief. Its pages are free by then, and would stay so. Where
// placement only rests, groups are as they were.
TEST_F(ModelStepsTest, AGroupThatIsLargeNoLongerLeavesItsHolesToOthers) {
  engine_.place_by_lifetime(Placing::all);
  Heap& heap = engine_.heap;
  const auto fill = [&](PageGroup group) {
    const int bin = bin_of(group, size_class_of(8192), false);
    std::vector<void*> slots(200 * kHugePageSize / 8192);
    for (void*& slot : slots) slot = heap.take_one(bin);
    return slots;
  };
  const std::vector<void*> sessions = fill(PageGroup::session);
  for (size_t i = 0; i < sessions.size(); ++i)
    if (i % 100 != 0)
      heap.give(bin_of(PageGroup::session, size_class_of(8192), false), &sessions[i], 1);
  engine_.step(pages_.time = pages_.time + Nanos::seconds(3), true);
  fill(PageGroup::brief);
  EXPECT_LE(heap.pages().in_use(), 230u) << "200 are used at most, and a few pinned";
  engine_.place_by_lifetime(Placing::rests);
  engine_.step(pages_.time = pages_.time + Nanos::seconds(1), true);
  const size_t before = heap.pages().in_use();
  fill(PageGroup::brief);
  EXPECT_GE(heap.pages().in_use(), before + 190);
  EXPECT_TRUE(heap.is_consistent());
}

// What stays then lies among what goes, in as few pages as it may.
TEST_F(ModelStepsTest, OnlyOnTrialGroupsTakeOverPagesThatAreHalfFree) {
  Heap& heap = engine_.heap;
  const auto bin = [](PageGroup group) { return bin_of(group, size_class_of(8192), false); };
  const auto grows = [&](Placing how) {
    engine_.place_by_lifetime(Placing::rests);
    engine_.place_by_lifetime(how);
    std::vector<void*> slots(200 * kHugePageSize / 8192);
    for (void*& slot : slots) slot = heap.take_one(bin(PageGroup::brief));
    for (size_t i = 0; i < slots.size(); ++i)
      if (i % 256 >= 32) heap.give(bin(PageGroup::brief), &slots[i], 1);
    heap.pages().note_most_used(1);
    const size_t before = heap.pages().in_use();
    for (size_t i = 0; i < slots.size() / 4; ++i) heap.take_one(bin(PageGroup::session));
    return heap.pages().in_use() - before;
  };
  EXPECT_LE(grows(Placing::all), 10u);
  EXPECT_GE(grows(Placing::sure), 45u);
}

TEST_F(ModelStepsTest, WhatHelpedInARunBeforeIsSure) {
  GateKept kept = kProof;
  kept.placed = {1, 50, 200, 200, 1200};
  for (const bool helps : {false, true}) {
    kept.verdict = helps ? GateVerdict::helps : GateVerdict::on_trial;
    EXPECT_EQ(Gate(kept).is_sure(), helps);
  }
}

TEST_F(ModelStepsTest, ATrialIsSureWhereTwoThirdsOfWhatIsPinnedPart) {
  GateKept kept = kProof;
  kept.verdict = GateVerdict::on_trial;
  kept.blind.low = 300;
  for (const uint32_t left : {0, 1, 100, 101, 300}) {
    kept.placed.low = left;
    EXPECT_EQ(Gate(kept).is_sure(), left == 1 || left == 100) << left;
  }
  kept.placed = {.rounds = 1, .high = 50, .low = 0, .depth = 200, .ratio = 1000};
  EXPECT_TRUE(Gate(kept).is_sure()) << "it was measured";
}

// What was taken for short-lived is known to stay by now. The load is no higher than it was.
TEST_F(ModelStepsTest, SlotsThatAGroupNoLongerNeedsServeOthers) {
  engine_.place_by_lifetime(Placing::all);
  Heap& heap = engine_.heap;
  const int size_class = size_class_of(64);
  const auto bin = [&](PageGroup group) { return bin_of(group, size_class, false); };
  std::vector<void*> slots(40 * kHugePageSize / 64);
  for (void*& slot : slots) slot = heap.take_one(bin(PageGroup::session));
  engine_.step(pages_.time = pages_.time + Nanos::seconds(1), true);
  for (size_t i = 0; i < slots.size(); ++i)
    if (i % 10 != 0) heap.give(bin(PageGroup::session), &slots[i], 1);
  for (size_t i = 0; i < slots.size(); ++i) heap.take_one(bin(PageGroup::permanent));
  EXPECT_LE(heap.pages().in_use(), 60u) << "of 80; 44 are live";
  engine_.place_by_lifetime(Placing::rests);
  EXPECT_TRUE(heap.is_consistent());
}

TEST_F(ModelStepsTest, HolesAreFilledForAsLongAsThereAreAny) {
  engine_.place_by_lifetime(Placing::all);
  const int bin = bin_of(PageGroup::transient, size_class_of(64), false);
  void* const stays = engine_.heap.take_one(bin);
  engine_.place_by_lifetime(Placing::given_up);
  rounds_in(kFillsLeftOver + Nanos::seconds(2));
  for (Nanos end = pages_.time + Nanos::seconds(3); pages_.time < end;
       pages_.time = pages_.time + Nanos::seconds(1))
    engine_.step(pages_.time, true);
  const void* p = engine_.allocate(nullptr, {.size = 64});
  EXPECT_EQ(engine_.heap.find(p), engine_.heap.find(stays));
}

TEST_F(ModelStepsTest, WhereTheOptionDecidesTheGateJudgesNothing) {
  steps_->run.take_evidence(kProof);
  for (const Segregate decided : {Segregate::never, Segregate::always}) {
    engine_.options.segregate.value = decided;
    live_and_die(LifetimeClass::le_3s, Nanos::seconds(20));
    rounds_in(Nanos::seconds(5));
    EXPECT_EQ(steps_->run.gate().kept(), kProof);
    EXPECT_EQ(engine_.placement_on, decided == Segregate::always);
  }
}

TEST_F(TroughTest, WhereTheOptionDecidesNothingIsSure) {
  LearnedState state;
  state.header.gate = kProof;
  state.header.gate.verdict = GateVerdict::helps;
  steps_->run.take_in(state, LearningRun::GateFrom::this_build, engine_.known_contexts.tree(),
                      pages_);
  EXPECT_EQ(steps_->placing(), Placing::sure);
  engine_.options.segregate.value = Segregate::always;
  EXPECT_EQ(steps_->placing(), Placing::all);
}

// The holes in the pages that it filled.
TEST_F(ModelStepsTest, WhatItLeavesIsUsedAgain) {
  engine_.place_by_lifetime(Placing::all);
  ThreadCache* const none = nullptr;
  std::vector<void*> placed;
  const int bin = bin_of(PageGroup::transient, size_class_of(64), false);
  for (int i = 0; i < 1000; ++i) placed.push_back(engine_.heap.take_one(bin));
  for (size_t i = 0; i < placed.size(); i += 2)
    engine_.deallocate(none, placed[i], engine_.heap.find(placed[i]), kUnknownSize);
  engine_.place_by_lifetime(Placing::given_up);
  int again = 0;
  for (int i = 0; i < 400; ++i) {
    const void* p = engine_.allocate(none, {.size = 64});
    again += std::binary_search(placed.begin(), placed.end(), p);
  }
  EXPECT_EQ(again, 400);
  EXPECT_EQ(engine_.heap.pages().in_use_by(PageGroup::transient), 0u);
  EXPECT_TRUE(engine_.heap.is_consistent());
}

// Of a state file that was read before.
TEST_F(ModelStepsTest, WhatTheProcessMeasuredItselfComesFirst) {
  LearnedState state;
  state.header.gate = kProof;
  state.header.gate.verdict = GateVerdict::fails;
  state.header.runs = 1;
  ASSERT_TRUE(steps_->open());
  steps_->run.take_in(state, LearningRun::GateFrom::this_build, engine_.known_contexts.tree(),
                      engine_.system);
  steps_->run.take_evidence(kProof);
  EXPECT_FALSE(steps_->places());
}

}  // namespace
}  // namespace llamalloc
