// SPDX-License-Identifier: Apache-2.0
// The context worker on stacks, names and modules from a table.
#include "placement/context_worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/code_key.h"
#include "os/fake/fake_pages.h"
#include "predict/frame_name_key.h"
#include "predict/test_model.h"

namespace llamalloc {
namespace {

// Frames are small numbers; those from 100 on lie in a module that can be unloaded, of mark 2.
class TableCode final : public LoadedCode {
 public:
  bool watch(MetadataArena&) override { return true; }
  uint8_t look_for_unloaded() override { return std::exchange(unloaded, uint8_t{0}); }
  uint8_t mark_of(uintptr_t address) const override { return address >= 100 ? 2 : 0; }
  bool stayed(uintptr_t address) const override { return address < 100; }
  void unwind(const StackSnapshot& copy, StackTrace* out) override {
    const std::vector<uintptr_t>& frames = stacks.at(copy.registers.pc);
    out->depth = static_cast<uint16_t>(frames.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      out->frames[i] = frames[i];
      out->codes[i] = frames[i] * 1000 + 1;
    }
  }
  uint32_t frame_bytes(uintptr_t) override { return 64; }
  bool name_frame(uintptr_t address, char* out, size_t room) override {
    ++names;
    snprintf(out, room, starved ? "?" : "f%zu", static_cast<size_t>(address));
    return !starved;
  }

  std::map<uintptr_t, std::vector<uintptr_t>> stacks;  // by the snapshot's pc
  uint8_t unloaded = 0;
  int names = 0;
  bool starved = false;  // no name can be read
};

class ContextWorkerTest : public testing::Test {
 protected:
  ContextWorkerTest() : path_(testing::TempDir() + "worker." + std::to_string(getpid())) {}
  ~ContextWorkerTest() override { unlink(path_.c_str()); }

  bool open(ContextWorker* worker, const TestModel& model, const char* program = "test",
            uint64_t build = 1) {
    std::ofstream(path_) << model.bytes();
    Evaluator* evaluator = Evaluator::load(path_.c_str(), arena_, error_, sizeof(error_));
    return evaluator != nullptr && worker->open(*evaluator, code_, {path_.c_str(), program, build},
                                                arena_, error_, sizeof(error_));
  }
  // Evaluates one context with this stack; its key is the last number and more.
  uint64_t work(ContextWorker& worker, const std::vector<uintptr_t>& frames) {
    const uintptr_t id = code_.stacks.size() + 1;
    code_.stacks[id] = frames;
    cache_->begin(PredictionCache::site_key({id, 0}, 3), LifetimeClass::mixed);
    return evaluate(worker, id, false);
  }
  uint64_t evaluate(ContextWorker& worker, uintptr_t id, bool recheck) {
    Miss* miss = worker.queue().reserve(false);
    miss->key = PredictionCache::site_key({id, 0}, 3);
    miss->site_key = 0;
    miss->size = 48;
    miss->recheck = recheck;
    miss->snapshot.registers.pc = id;
    const uint64_t key = miss->key;
    worker.queue().submit(miss);
    worker.work(placement_, counters_, clock_);
    return key;
  }
  LifetimeClass answer_of(const TestModel& model) {
    ContextWorker worker;
    EXPECT_TRUE(open(&worker, model)) << error_;
    return cache_->find(work(worker, {7, 8})).lifetime;
  }

  const std::string path_;
  char error_[512] = "";
  TableCode code_;
  FakePages clock_;
  MetadataArena arena_{system_pages};
  Counters counters_;
  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
  Placement placement_{*cache_, counters_};
};

TEST_F(ContextWorkerTest, AsksTheTablesBeforeTheNetwork) {
  const LifetimeClass by_network = answer_of(TestModel());
  using enum LifetimeClass;
  const LifetimeClass other = by_network == le_10s ? never : le_10s;
  const std::string answer(1, static_cast<char>(other));
  TestModel model;
  model.set_table("exact", {ContextPath(7001, 48).key()}, answer);
  code_.names = 0;
  EXPECT_EQ(answer_of(model), other);
  EXPECT_EQ(code_.names, 0) << "the exact table needs none";

  TestModel named;
  const std::vector<uint64_t> keys{ContextPath(frame_name_key("f7"), 48).key()};
  named.set_table("name", keys, answer + answer);
  EXPECT_EQ(answer_of(named), other);
  named.set_table("name", keys, std::string("\x7f") + answer);
  named.set_floats("network_trust", {0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(answer_of(named), other);  // the site prior is trusted more
  named.set_floats("prior_trust", {0.4f, 0.4f, 0.4f, 0.4f});
  EXPECT_EQ(answer_of(named), by_network);
  named.set_floats("network_trust", {0.4f, 0.4f, 0.4f, 0.4f});
  EXPECT_EQ(answer_of(named), mixed);  // nobody is trusted
}

// With no descriptor left, it is not known for good that nothing is known.
TEST_F(ContextWorkerTest, AContextWhoseNamesCannotBeReadIsNewAgainLater) {
  const auto expected = LifetimeClass::le_10s;
  TestModel model;
  const std::string answer(2, static_cast<char>(expected));
  model.set_table("name", {ContextPath(frame_name_key("f7"), 48).key()}, answer);
  ContextWorker worker;
  ASSERT_TRUE(open(&worker, model)) << error_;
  code_.starved = true;
  const uint64_t key = work(worker, {7, 8});
  EXPECT_EQ(cache_->find(key).lifetime, LifetimeClass::mixed);
  worker.work(placement_, counters_, clock_);
  EXPECT_TRUE(cache_->find(key).found) << "not at once";
  clock_.time = clock_.time + ContextWorker::kStarvedPause;
  worker.work(placement_, counters_, clock_);
  EXPECT_FALSE(cache_->find(key).found);
  code_.starved = false;
  EXPECT_EQ(cache_->find(work(worker, {7, 8})).lifetime, expected);
}

TEST_F(ContextWorkerTest, AllContextsWithoutNamesAreNewAgain) {
  ContextWorker worker;
  ASSERT_TRUE(open(&worker, TestModel())) << error_;
  code_.starved = true;
  std::vector<uint64_t> keys;
  for (uint32_t i = 0; i < 2 * ContextWorker::kMostStarved; ++i) keys.push_back(work(worker, {i}));
  clock_.time = clock_.time + ContextWorker::kStarvedPause;
  worker.work(placement_, counters_, clock_);
  EXPECT_EQ(std::ranges::count_if(keys, [&](uint64_t key) { return cache_->find(key).found; }), 0);
}

TEST_F(ContextWorkerTest, AFewContextsWithoutNamesAreForgottenAlone) {
  ContextWorker worker;
  ASSERT_TRUE(open(&worker, TestModel())) << error_;
  const uint64_t known = work(worker, {7, 8});
  code_.starved = true;
  std::vector<uint64_t> keys;
  for (uint32_t i = 0; i < ContextWorker::kMostStarved; ++i) keys.push_back(work(worker, {i}));
  clock_.time = clock_.time + ContextWorker::kStarvedPause;
  worker.work(placement_, counters_, clock_);
  EXPECT_EQ(std::ranges::count_if(keys, [&](uint64_t key) { return cache_->find(key).found; }), 0);
  EXPECT_TRUE(cache_->find(known).found);
}

TEST_F(ContextWorkerTest, ARecheckWithoutNamesChangesNothing) {
  TestModel model;
  const std::string answer(2, static_cast<char>(LifetimeClass::le_10s));
  model.set_table("name", {ContextPath(frame_name_key("f7"), 48).key()}, answer);
  {
    ContextWorker worker;
    ASSERT_TRUE(open(&worker, model)) << error_;
    work(worker, {7, 8});
  }
  ContextWorker worker;  // it does not remember the answer
  ASSERT_TRUE(open(&worker, model)) << error_;
  code_.starved = true;
  const uint64_t key = evaluate(worker, 1, true);
  EXPECT_EQ(cache_->find(key).lifetime, LifetimeClass::le_10s);
}

TEST_F(ContextWorkerTest, TwoCallersMakeAWrapper) {
  ContextWorker worker;
  ASSERT_TRUE(open(&worker, TestModel())) << error_;
  work(worker, {7, 8, 9});
  work(worker, {7, 8, 9});
  EXPECT_EQ(cache_->sites.frame_bytes(7), 0u);
  work(worker, {7, 18, 9});
  EXPECT_EQ(cache_->sites.frame_bytes(7), 64u);
}

TEST_F(ContextWorkerTest, WhatAModuleTaughtGoesWithIt) {
  ContextWorker worker;
  ASSERT_TRUE(open(&worker, TestModel())) << error_;
  const uint64_t own = work(worker, {7, 8});
  const uint64_t gone = work(worker, {101, 8});
  work(worker, {101, 9});
  ASSERT_TRUE(cache_->find(gone).found);
  ASSERT_EQ(cache_->sites.frame_bytes(101), 64u);
  code_.unloaded = 2 | kUnknownModule;
  worker.work(placement_, counters_, system_pages);
  EXPECT_FALSE(cache_->find(gone).found);
  EXPECT_EQ(cache_->sites.frame_bytes(101), 0u);
  EXPECT_TRUE(cache_->find(own).found);
}

// The names of a TableCode, as far as a model knows them.
class TableNames final : public KnownNames {
 public:
  bool name_frame(uintptr_t return_address, CodeModule*, FrameName* out) override {
    const std::string name = "f" + std::to_string(return_address);
    *out = {};
    if (model->knows(frame_name(name.c_str()))) *out = frame_name(name.c_str());
    return true;
  }
  const ModelEvidence* model = nullptr;
};

// What a model says of 60 random contexts, as training writes it: each node's answer and prior, and
// the callers among the innermost frames.
TestModel random_model(std::minstd_rand& random) {
  std::map<uint64_t, std::string> nodes;
  const auto lifetime = [&] { return static_cast<char>(random() % kLifetimeClasses); };
  for (int i = 0; i < 60; ++i) {
    ContextPath path(frame_name_key("f0"), 48);
    const auto number = [&] { return frame_name(("f" + std::to_string(random() % 12)).c_str()); };
    std::vector<FrameName> frames{frame_name("f0")};
    for (size_t depth = random() % 12; frames.size() <= depth;) frames.push_back(number());
    if (random() % 4 == 0) frames[0] = number();
    path = ContextPath(frames[0].function, 48);
    for (size_t f = 0; f <= frames.size(); ++f) {
      const bool last = f == frames.size();
      const char answer = !last ? '\x80' : random() % 3 == 0 ? '\x7f' : lifetime();
      nodes.insert({path.key(), {answer, lifetime()}});
      if (!last) path.descend(frames[f].function);
      if (f < 8 && !last && random() % 2 == 0)
        nodes.insert({ContextPath(frames[f].caller, 48).key(), {'\x7f', lifetime()}});
    }
    for (size_t f = 0; f < 8 && f < frames.size(); ++f)
      nodes.insert({ContextPath(frames[f].caller, 48).key(), {'\x7f', lifetime()}});
  }
  std::vector<uint64_t> keys;
  std::string answers;
  for (const auto& [key, answer] : nodes) keys.push_back(key), answers += answer;
  TestModel model;
  model.set_table("name", keys, answers);
  model.set_floats("network_trust", {-1, -1, -1, -1});
  model.set_floats("prior_trust", {0.9f, 0.9f, random() % 2 ? 0.9f : 0.1f, 0.9f});
  return model;
}

// What a thread says at once is what the worker says later.
TEST_F(ContextWorkerTest, TheFirstAnswerByNamesIsTheWorkersToo) {
  std::minstd_rand random(5);
  int known = 0, all = 0;
  for (int round = 0; round < 10; ++round) {
    ContextWorker worker;
    ContextResolver resolver;
    TableNames names;
    ASSERT_TRUE(open(&worker, random_model(random))) << error_;
    names.model = &worker.evidence();
    ASSERT_TRUE(worker.share_tables(resolver, &names, arena_));
    for (int i = 0; i < 300; ++i) {
      std::vector<uintptr_t> frames{random() % 3 ? 0 : random() % 20};
      for (size_t depth = 1 + random() % 40; frames.size() < depth;)
        frames.push_back(random() % (i % 2 ? 14 : 12));
      const auto answer = resolver.resolve(frames[0], frames[0] * 1000 + 1, 48, cache_->sites,
                                           [&](StackTrace* trace) {
                                             trace->depth = static_cast<uint16_t>(frames.size());
                                             for (size_t f = 0; f < frames.size(); ++f)
                                               trace->frames[f] = frames[f];
                                           });
      cache_->clear();
      const LifetimeClass later = cache_->find(work(worker, frames)).lifetime;
      ++all;
      if (!answer.known) continue;
      ++known;
      ASSERT_EQ(answer.lifetime, later) << "round " << round << ", stack " << i;
    }
  }
  EXPECT_GT(known, all / 2);
}

TEST_F(ContextWorkerTest, RefusesTheModelOfAnotherProgram) {
  TestModel model;
  model.metadata["programs"] = std::string("mariadbd");
  model.set_words("builds", {7});
  ContextWorker worker;
  EXPECT_FALSE(open(&worker, model, "redis-server", 5));
  EXPECT_FALSE(worker.loaded());
  const std::string cause = ": of mariadbd, not of redis-server; train one for it";
  EXPECT_EQ(error_, "model " + path_ + cause);
  EXPECT_TRUE(open(&worker, model, "redis-server", 7));
  EXPECT_STREQ(error_, "");
  ContextWorker another;
  EXPECT_TRUE(open(&another, model, "mariadbd", 8));
  EXPECT_NE(std::string(error_).find("of another build of mariadbd"), std::string::npos) << error_;
}

}  // namespace
}  // namespace llamalloc
