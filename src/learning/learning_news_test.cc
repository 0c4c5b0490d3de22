// SPDX-License-Identifier: Apache-2.0
// When there is something to sample (LearningRun::wants_samples), and to write (has_news).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/size_bucket.h"
#include "learning/learning_run.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

using GateFrom = LearningRun::GateFrom;

constexpr LearningRun::Build kBuild{1, 10};

long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

LearnedState file_of(uint32_t runs, GateVerdict verdict = GateVerdict::on_trial) {
  LearnedState state;
  state.header.runs = runs;
  state.header.gate = {verdict, 1, {3, 50, 400, 5, 2000}, {3, 60, 100, 5, 1100}, 500};
  return state;
}

class LearningNewsTest : public testing::Test {
 protected:
  void SetUp() override {
    profiler_.start(1, Nanos{0});
    ASSERT_TRUE(run_.open(arena_));
    ASSERT_TRUE(tree_.open(arena_));
    run_.begin(Nanos{0});
  }
  // By one call site; 0: it has no caller.
  void* born(uintptr_t caller = 0) {
    StackTrace trace;
    for (const uintptr_t frame : {uintptr_t{7}, caller}) {
      if (frame == 0) break;
      trace.frames[trace.depth] = trace.codes[trace.depth] = frame;
      trace.images[trace.depth++] = 1;
    }
    void* p = reinterpret_cast<void*>(next_ += 64);
    profiler_.on_alloc(p, 100, trace, 0, LifetimeClass::mixed, now_, 1, 0);
    return p;
  }
  void round() { run_.round({profiler_, tree_, cache_, pages_}, now_); }
  // High load, a trough, and high load again, as the gate sees them.
  static void one_round_of(LearningRun* run, Nanos* now, size_t peak) {
    for (const size_t live : {peak, peak / 6, peak})
      for (int i = 0; i < 10; ++i)
        run->step_gate(*now = *now + Nanos::seconds(1), {peak + peak / 5, live}, {});
  }
  void one_round(size_t peak) { one_round_of(&run_, &now_, peak); }
  void save() { save_into(LearnedState()); }
  // The runs that the file then counts.
  uint32_t save_into(LearnedState file) {
    EXPECT_TRUE(run_.add_to(&file, ReadStatus::absent, kBuild, pages_));
    file.give_back();
    run_.note_saved();
    return file.header.runs;
  }

  FakePages pages_;
  MetadataArena arena_{pages_};
  Profiler profiler_{arena_, pages_};
  ContextTree tree_;
  PredictionCache cache_;
  LearningRun run_;
  Nanos now_{0};
  uintptr_t next_ = 1 << 20;
};

// ----- What is sampled -----

TEST_F(LearningNewsTest, MoreSamplesThanOnePercentOfAProcessorTakesAreTooMany) {
  const Options options;
  uint64_t samples = 0;
  const auto interval_at = [&](uint64_t a_second) {
    samples += a_second;
    run_.note_samples(samples, now_ = now_ + Nanos::seconds(1));
    return run_.interval(options);
  };
  EXPECT_EQ(interval_at(LearningRun::kMostSamples), LearningRun::kInterval);
  EXPECT_EQ(interval_at(5 * LearningRun::kMostSamples), 8 * LearningRun::kInterval);
  EXPECT_EQ(interval_at(LearningRun::kMostSamples / 2), 8 * LearningRun::kInterval);
  for (int i = 0; i < 9; ++i) interval_at(1);
  EXPECT_EQ(run_.interval(options), LearningRun::kInterval);
  for (int i = 0; i < 9; ++i) interval_at(100 * LearningRun::kMostSamples);
  EXPECT_EQ(run_.interval(options), LearningRun::kInterval << LearningRun::kMostCoarser);
}

TEST_F(LearningNewsTest, AForkedChildCountsItsOwnSamples) {
  const Options options;
  run_.note_samples(LearningRun::kMostSamples, now_ = now_ + Nanos::seconds(1));
  run_.fork_at(now_);
  run_.note_samples(1, now_ = now_ + Nanos::seconds(1));
  EXPECT_EQ(run_.interval(options), LearningRun::kInterval);
}

TEST_F(LearningNewsTest, WhatTheOptionSaysIsNotMadeCoarser) {
  Options options;
  options.sample_interval = 4096;
  run_.note_samples(1 << 20, now_ = Nanos::seconds(1));
  EXPECT_EQ(run_.interval(options), 4096u);
}

TEST_F(LearningNewsTest, SmallHeapsAreNotSampledUnlessAsked) {
  Options options;
  EXPECT_FALSE(run_.wants_samples(options, LearningRun::kLeastHeap - 1));
  EXPECT_TRUE(run_.wants_samples(options, LearningRun::kLeastHeap));
  options.segregate.value = Segregate::always;
  EXPECT_TRUE(run_.wants_samples(options, 0));
  options = {};
  options.sample_interval = 4096;
  EXPECT_TRUE(run_.wants_samples(options, 0));
  EXPECT_EQ(run_.interval(options), 4096u);
}

TEST_F(LearningNewsTest, AnOpenGateIsSampledUnlessTheOptionClosesIt) {
  run_.take_evidence({GateVerdict::on_trial, 0, {1, 50, 400, 200, 2000}, {}, 500});
  Options options;
  EXPECT_TRUE(run_.wants_samples(options, 0));
  options.segregate.value = Segregate::never;
  EXPECT_FALSE(run_.wants_samples(options, 0));
}

// With a model alone, only the gate asks for them.
TEST_F(LearningNewsTest, NothingIsSampledThatNobodyReads) {
  const LearningRun closed;
  Options options;
  EXPECT_TRUE(closed.wants_samples(options, LearningRun::kLeastHeap));
  options.segregate.value = Segregate::never;
  EXPECT_FALSE(closed.wants_samples(options, LearningRun::kLeastHeap));
}

TEST_F(LearningNewsTest, SamplesAreFinerWherePlacementPays) {
  EXPECT_EQ(run_.interval({}), LearningRun::kInterval);
  LearnedState state;
  state.header.runs = 1;
  state.header.gate.blind = {3, 50, 900, 5, 100000};
  for (const GateVerdict verdict : {GateVerdict::on_trial, GateVerdict::helps}) {
    state.header.gate.verdict = verdict;
    run_.take_in(state, GateFrom::this_build, tree_, pages_);
    EXPECT_EQ(run_.interval({}), Options::kSampleInterval);
    EXPECT_TRUE(run_.wants_samples({}, 0)) << "from the first allocation on";
  }
  state.header.gate.verdict = GateVerdict::fails;
  run_.take_in(state, GateFrom::this_build, tree_, pages_);
  EXPECT_EQ(run_.interval({}), LearningRun::kInterval);
}

// ----- Rounds -----

// The process, or its machine, was stopped in a round.
TEST_F(LearningNewsTest, ARoundThatWasStoppedForHoursDelaysTheNextForAMinuteAtMost) {
  born();
  now_ = pages_.time;
  pages_.on_release_argument = &pages_;
  pages_.on_release = [](void* pages) {
    auto& time = static_cast<FakePages*>(pages)->time;
    time = time + Nanos::seconds(3600);
  };
  round();
  pages_.on_release = nullptr;
  EXPECT_GT(pages_.time, now_) << "it was stopped";
  EXPECT_TRUE(run_.is_round_due(pages_.time + Nanos::seconds(60)));
}

// ----- What is written -----

TEST_F(LearningNewsTest, NothingAtFirst) {
  round();
  EXPECT_FALSE(run_.has_news());
}

// A wave of objects is saved while it lives; that it dies is news, though nothing was born since.
TEST_F(LearningNewsTest, DeathsAfterTheLastBirth) {
  std::vector<void*> wave;
  for (int i = 0; i < 100; ++i) wave.push_back(born());
  round();
  EXPECT_TRUE(run_.has_news());
  save();
  round();
  EXPECT_FALSE(run_.has_news());
  for (void* p : wave) profiler_.on_free(p, now_, 1, 0);
  now_ = Nanos::seconds(10);
  round();
  EXPECT_FALSE(run_.has_news()) << "this may be the program's end";
  now_ = Nanos::seconds(20);
  round();
  EXPECT_TRUE(run_.has_news());
  save();
  EXPECT_FALSE(run_.has_news());
}

TEST_F(LearningNewsTest, WhatTheGateDecided) {
  for (int i = 0; i < 10; ++i)
    run_.step_gate(now_ = now_ + Nanos::seconds(1), {300 << 20, 250 << 20}, {});
  EXPECT_FALSE(run_.has_news());
  for (int i = 0; i < 5; ++i)
    run_.step_gate(now_ = now_ + Nanos::seconds(1), {300 << 20, 50 << 20}, {});
  for (int i = 0; i < 5; ++i)
    run_.step_gate(now_ = now_ + Nanos::seconds(1), {300 << 20, 250 << 20}, {});
  EXPECT_TRUE(run_.has_news());  // a round is over
  save();
  EXPECT_FALSE(run_.has_news());
}

// A caller that is not decided yet is asked for in the next run, too: else its objects would lie
// among those of the others until it is.
TEST_F(LearningNewsTest, WhatIsOpenIsAskedForInTheNextRun) {
  for (int i = 0; i < 40; ++i) profiler_.on_free(born(10), now_, 1, 0);
  born(11);
  now_ = Nanos::seconds(4);
  round();
  ASSERT_TRUE(run_.learner().node(0).deeper);
  LearnedState file;
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::absent, kBuild, pages_));
  int differ = 0;
  for (const LearnedNode& node : file.nodes.view()) differ += node.differs;
  EXPECT_EQ(differ, 2) << "the site and its size";
  file.give_back();
}

// Else each later run would ask for the callers of a site whose objects all die soon.
TEST_F(LearningNewsTest, WhatIsNotOpenAnyMoreIsNotAskedForInLaterRuns) {
  for (uintptr_t caller = 20; caller < 30; ++caller)
    for (int i = 0; i < 40; ++i) profiler_.on_free(born(caller), now_, 1, 0);
  void* const open = born(11);
  now_ = Nanos::seconds(4);
  round();
  const uint64_t site = run_.learner().node(0).key;
  LearnedState file;
  const auto answer_in_the_next_run = [&] {
    EXPECT_TRUE(run_.add_to(&file, ReadStatus::absent, kBuild, pages_));
    run_.note_saved();
    MetadataArena arena(pages_);
    LearningRun next;
    ContextTree tree;
    EXPECT_TRUE(next.open(arena) && tree.open(arena));
    next.take_in(file, GateFrom::none, tree, pages_);
    return tree.find(site);
  };
  EXPECT_TRUE(answer_in_the_next_run().deeper);
  profiler_.on_free(open, now_, 1, 0);
  for (int i = 0; i < 40; ++i) profiler_.on_free(born(11), now_, 1, 0);
  for (int i = 0; i < 3; ++i) now_ = now_ + Nanos::seconds(10), round();  // it goes on
  ASSERT_FALSE(run_.learner().node(0).deeper);
  const ContextTree::Node answer = answer_in_the_next_run();
  EXPECT_TRUE(answer.found);
  EXPECT_FALSE(answer.deeper);
  EXPECT_TRUE(dies_soon(answer.lifetime));
  file.give_back();
}

// Else nothing could be carried over to another build.
TEST_F(LearningNewsTest, NodesSayWhatTheirKeysAreMadeOf) {
  for (int i = 0; i < 40; ++i) profiler_.on_free(born(10), now_, 1, 0);
  born(11);
  now_ = Nanos::seconds(4);
  round();
  LearnedState file;
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::absent, kBuild, pages_));
  int levels[4] = {};
  for (const LearnedNode& node : file.nodes.view()) {
    ASSERT_LE(node.level, 3);
    ++levels[node.level];
    EXPECT_TRUE(node.path_is_known());
    EXPECT_EQ(ContextPath::extend(node.parent, node.word), node.key);
    EXPECT_EQ(node.parent == ContextPath::kRoot, node.level == 1);
    EXPECT_EQ(node.word == size_bucket(100), node.level == 2);
  }
  EXPECT_EQ(levels[1], 1);
  EXPECT_EQ(levels[2], 1);
  EXPECT_EQ(levels[3], 2);
  file.give_back();
}

// What helped another build helps this one, too, if most of what it knew holds here; but that is to
// be shown.
TEST_F(LearningNewsTest, AnotherBuildsVerdictIsOnTrialWhereMostIsKnown) {
  using Run = LearningRun;
  EXPECT_EQ(Run::gate_from(ReadStatus::ok, 1), GateFrom::this_build);
  EXPECT_EQ(Run::gate_from(ReadStatus::ok, 0.1), GateFrom::like_build) << "of its libraries";
  EXPECT_EQ(Run::gate_from(ReadStatus::other_build, 0.51), GateFrom::like_build);
  EXPECT_EQ(Run::gate_from(ReadStatus::other_build, 0.49), GateFrom::none);
  run_.take_in(file_of(7, GateVerdict::helps), GateFrom::none, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::untried);
  run_.take_in(file_of(7, GateVerdict::helps), GateFrom::like_build, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::on_trial);
  EXPECT_EQ(run_.gate().kept().blind.rounds, 3u);
  run_.take_in(file_of(7, GateVerdict::fails), GateFrom::like_build, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::fails);
  run_.take_in(file_of(7, GateVerdict::helps), GateFrom::this_build, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::helps);
}

// Builds side by side, or a roll-back: neither undoes what the other one measured.
TEST_F(LearningNewsTest, AnotherBuildsRecordStaysUntilThisOneHasMeasuredSomething) {
  LearnedState file = file_of(7, GateVerdict::helps);
  file.header.program = 7;
  file.header.modules = 70;
  const GateKept before = file.header.gate;
  run_.take_in(file, GateFrom::none, tree_, pages_);
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::other_build, kBuild, pages_));
  run_.note_saved();
  EXPECT_EQ(file.header.gate, before);
  EXPECT_EQ(file.header.program, 7u) << "so the next start of this build does not believe it";
  EXPECT_EQ(file.header.modules, 70u);
  one_round(300 << 20);
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::other_build, kBuild, pages_));
  EXPECT_EQ(file.header.gate, run_.gate().kept());
  EXPECT_EQ(file.header.program, 1u);
  EXPECT_EQ(file.header.modules, 10u);
  file.give_back();
}

// A canary that is hardly the same program wrote the file of the build that runs.
TEST_F(LearningNewsTest, AnotherBuildIsOneByWhatIsKnownOfItNow) {
  run_.take_in(file_of(1, GateVerdict::helps), GateFrom::this_build, tree_, pages_);
  LearnedState file = file_of(7, GateVerdict::fails);
  file.header.program = 7;
  const LearningRun::Build little{kBuild.program, kBuild.modules, 0.1};
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::other_build, little, pages_));
  EXPECT_EQ(file.header.gate.verdict, GateVerdict::helps) << "none of the canary's figures is ours";
  file.give_back();
}

TEST_F(LearningNewsTest, WhatAModelSaysReplacesNoRecordOfAnotherBuild) {
  LearnedState file = file_of(7, GateVerdict::helps);
  file.header.program = 7;
  const GateKept before = file.header.gate;
  run_.take_in(file, GateFrom::none, tree_, pages_);
  run_.take_evidence({GateVerdict::on_trial, 0, {1, 50, 400, 200, 2000}, {}, 500});
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::other_build, kBuild, pages_));
  EXPECT_EQ(file.header.gate, before);
  EXPECT_EQ(file.header.program, 7u);
  file.give_back();
}

TEST_F(LearningNewsTest, WhatABuildThatIsAlikeDecidedMeanwhileStays) {
  run_.take_in(file_of(7, GateVerdict::helps), GateFrom::like_build, tree_, pages_);
  for (const GateVerdict now : {GateVerdict::fails, GateVerdict::helps}) {
    LearnedState file = file_of(7, now);
    file.header.program = 7;
    ASSERT_TRUE(run_.add_to(&file, ReadStatus::other_build, kBuild, pages_));
    const bool fails = now == GateVerdict::fails;
    EXPECT_EQ(file.header.gate.verdict, fails ? now : GateVerdict::on_trial);
    EXPECT_EQ(file.header.program, 1u);
    file.give_back();
  }
}

// The same program with another build of its libraries: what it did not measure is not its own.
TEST_F(LearningNewsTest, WhatHelpedWithOtherLibrariesIsWrittenAsOnTrial) {
  LearnedState file = file_of(7, GateVerdict::helps);
  file.header.modules = 70;
  run_.take_in(file, GateFrom::like_build, tree_, pages_);
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::ok, kBuild, pages_));
  file.give_back();
  EXPECT_EQ(file.header.gate.verdict, GateVerdict::on_trial);
  EXPECT_EQ(file.header.modules, 10u);
}

// Else it would stay in the file for as long as the process runs.
TEST_F(LearningNewsTest, ALoadThatIsGoneIsForgottenThoughAnotherProcessMeasuredItToo) {
  LearningRun other;
  LearnedState file;
  Nanos others_time{};
  const auto write = [&](LearningRun* run) {
    const ReadStatus status = file.header.runs == 0 ? ReadStatus::absent : ReadStatus::ok;
    ASSERT_TRUE(run->add_to(&file, status, kBuild, pages_));
    run->note_saved();
    file.header.runs = 1;
  };
  one_round(600 << 20);
  write(&run_);
  other.take_in(file, GateFrom::this_build, tree_, pages_);
  for (int i = 0; i < 3; ++i) one_round_of(&other, &others_time, 620 << 20);
  write(&other);
  one_round(600 << 20);
  write(&run_);
  const auto usual = file.header.gate.peak;
  ASSERT_GE(usual, 590);
  for (int i = 0; i < 60; ++i) one_round(300 << 20);
  write(&run_);
  EXPECT_LT(run_.gate().kept().peak, 400);
  EXPECT_LT(file.header.gate.peak, 400);
  file.give_back();
}

// Where objects live shorter now, what the file says counts half with each window that agrees.
TEST_F(LearningNewsTest, WhatIsOutOfDateFadesInTheFile) {
  profiler_.on_free(born(), now_, 1, 0);
  round();
  const uint64_t key = run_.learner().node(0).key;
  LearnedNode old;
  old.key = key;
  old.level = 1;
  old.evidence.deaths[static_cast<int>(LifetimeClass::le_10s)] = 2000;
  LearnedState file;
  ASSERT_TRUE(file.nodes.make_room(1, pages_));
  file.nodes.append(old);
  run_.take_in(file, GateFrom::none, tree_, pages_);
  for (int i = 0; i < 400; ++i) {
    for (int n = 0; n < 15; ++n) profiler_.on_free(born(), now_, 1, 0);
    now_ = now_ + Nanos::seconds(1);
    round();
  }
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::absent, kBuild, pages_));
  ASSERT_EQ(file.nodes.size(), 1u);
  EXPECT_EQ(file.nodes.data()[0].evidence.deaths[static_cast<int>(LifetimeClass::le_10s)], 0);
  EXPECT_GT(file.nodes.data()[0].evidence.deaths[0], 5000);
  file.give_back();
}

// Else many short runs would age what few large ones measured.
TEST_F(LearningNewsTest, ARunCountsOnceIfItCouldDecideSomething) {
  run_.take_in(file_of(7), GateFrom::this_build, tree_, pages_);
  EXPECT_EQ(save_into(file_of(7)), 7u);
  run_.note_size({}, LearningRun::kLeastHeap - 1);
  EXPECT_EQ(save_into(file_of(7)), 7u);
  run_.note_size({}, LearningRun::kLeastHeap);
  run_.note_size({}, 0);
  EXPECT_EQ(save_into(file_of(7)), 8u);
  EXPECT_EQ(save_into(file_of(8)), 8u);
  LearningRun asked;
  asked.take_in(file_of(7), GateFrom::this_build, tree_, pages_);
  Options options;
  options.sample_interval = 4096;
  asked.note_size(options, 0);
  LearnedState file = file_of(7);
  ASSERT_TRUE(asked.add_to(&file, ReadStatus::absent, kBuild, pages_));
  file.give_back();
  EXPECT_EQ(file.header.runs, 8u);
}

// Else ten that always start together pass over the runs after which the gate tries again.
TEST_F(LearningNewsTest, ProcessesThatBeginTogetherOrForkAreOneRun) {
  LearningRun child, other;
  for (LearningRun* run : {&run_, &child, &other}) {
    run->take_in(file_of(7), GateFrom::this_build, tree_, pages_);
    run->note_size({}, LearningRun::kLeastHeap);
  }
  child.fork_at(now_);
  LearnedState file = file_of(7);
  for (LearningRun* run : {&child, &run_, &other, &child}) {
    ASSERT_TRUE(run->add_to(&file, ReadStatus::ok, kBuild, pages_));
    file.give_back();
    run->note_saved();
    EXPECT_EQ(file.header.runs, 8u);
  }
}

TEST_F(LearningNewsTest, AFileThatWasRemovedMeanwhileCountsTheRun) {
  run_.take_in(file_of(7), GateFrom::this_build, tree_, pages_);
  run_.note_size({}, LearningRun::kLeastHeap);
  EXPECT_EQ(save_into(file_of(0)), 1u);
}

TEST_F(LearningNewsTest, WhatAgedBeforeAForkIsAgedInTheFile) {
  const uint32_t runs = LearningRun::kRunsUntilRetrial;
  for (const GateVerdict old : {GateVerdict::fails, GateVerdict::helps}) {
    run_.take_in(file_of(runs, old), GateFrom::this_build, tree_, pages_);
    run_.note_size({}, LearningRun::kLeastHeap);
    const GateKept aged = run_.gate().kept();
    EXPECT_NE(aged.verdict, old);
    run_.fork_at(now_);
    LearnedState file = file_of(runs, old);
    ASSERT_TRUE(run_.add_to(&file, ReadStatus::ok, kBuild, pages_));
    file.give_back();
    EXPECT_EQ(file.header.gate.verdict, aged.verdict);
  }
}

TEST_F(LearningNewsTest, AFileWithoutRunsIsNotOld) {
  run_.take_in(file_of(0), GateFrom::this_build, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::on_trial);
}

// What the parent learned is the parent's to save.
TEST_F(LearningNewsTest, AForkedChildHasNoneOfItsParents) {
  for (int i = 0; i < 100; ++i) born();
  round();
  run_.fork_at(now_);
  profiler_.forget_all(now_);
  EXPECT_FALSE(run_.has_news());
  EXPECT_TRUE(run_.is_round_due(now_));
  round();
  EXPECT_FALSE(run_.has_news());
  born();
  round();
  EXPECT_TRUE(run_.has_news());
}

// Else each of a thousand children copies what the file says, and looks at it once a second.
TEST_F(LearningNewsTest, AForkedChildCopiesOnlyTheContextsThatItMeets) {
  LearnedState file;
  LearnedNode node;
  node.level = 1;
  node.evidence.deaths[0] = 100;
  ASSERT_TRUE(file.nodes.make_room(LearningRun::kMostKept, pages_));
  for (node.key = 1 << 16; file.nodes.size() < file.nodes.room(); node.key += 1 << 16)
    file.nodes.append(node);
  run_.take_in(file, GateFrom::none, tree_, pages_);
  file.give_back();
  born();
  round();
  const pid_t child = fork();
  if (child == 0) {
    run_.fork_at(now_);
    profiler_.forget_all(now_);
    const long before = faults();
    round();
    const long without_samples = faults() - before;
    born();
    round();
    const long with_one = faults() - before - without_samples;
    _exit(without_samples < 10 && with_one < 200 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Else each child would halve what the file says once more.
TEST_F(LearningNewsTest, AForkedChildDoesNotFadeWhatItsParentFaded) {
  profiler_.on_free(born(), now_, 1, 0);
  round();
  LearnedNode old;
  old.key = run_.learner().node(0).key;
  old.level = 1;
  old.evidence.deaths[static_cast<int>(LifetimeClass::le_10s)] = 2000;
  LearnedState file;
  ASSERT_TRUE(file.nodes.make_room(1, pages_));
  file.nodes.append(old);
  run_.take_in(file, GateFrom::none, tree_, pages_);
  for (int i = 0; i < 400; ++i) {
    for (int n = 0; n < 15; ++n) profiler_.on_free(born(), now_, 1, 0);
    now_ = now_ + Nanos::seconds(1);
    round();
  }
  ASSERT_GT(run_.learner().node(0).fades, 0);
  run_.fork_at(now_);
  profiler_.forget_all(now_);
  round();
  EXPECT_FALSE(run_.has_news());
  born();
  round();
  EXPECT_EQ(run_.learner().node(0).fades, 0);
  file.give_back();
}

// A run before its users come, that the file does not count, must not age it again and again.
TEST_F(LearningNewsTest, ARunThatDoesNotCountAgesNothing) {
  const LearnedState before = file_of(LearningRun::kRunsUntilRetrial, GateVerdict::helps);
  run_.take_in(before, GateFrom::this_build, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::on_trial);
  EXPECT_FALSE(run_.has_news());
  LearnedState file = before;
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::ok, kBuild, pages_));
  file.give_back();
  run_.note_saved();
  EXPECT_EQ(file.header.gate, before.header.gate);
  EXPECT_FALSE(run_.has_news());
  run_.note_size({}, LearningRun::kLeastHeap);  // the users come
  EXPECT_TRUE(run_.has_news());
  ASSERT_TRUE(run_.add_to(&file, ReadStatus::ok, kBuild, pages_));
  file.give_back();
  run_.note_saved();
  EXPECT_EQ(file.header.gate.verdict, GateVerdict::on_trial);
  EXPECT_EQ(file.header.runs, LearningRun::kRunsUntilRetrial + 1);
  EXPECT_FALSE(run_.has_news());
}

// What blind placement left is measured anew now and then, or one odd load would decide for ever.
TEST_F(LearningNewsTest, EverySecondAgingForgetsWhatHelped) {
  run_.take_in(file_of(2 * LearningRun::kRunsUntilRetrial, GateVerdict::helps),
               GateFrom::this_build, tree_, pages_);
  EXPECT_EQ(run_.gate().kept().verdict, GateVerdict::untried);
  EXPECT_EQ(run_.gate().kept().blind.rounds, 0u);
}

}  // namespace
}  // namespace llamalloc
