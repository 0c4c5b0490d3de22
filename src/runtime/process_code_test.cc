// SPDX-License-Identifier: Apache-2.0
// The context worker on real modules that come and go.
#include "runtime/process_code.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "os/test_plugin.h"
#include "placement/context_worker.h"
#include "predict/frame_name_key.h"
#include "predict/test_model.h"

namespace llamalloc {
namespace {

// A wrapper with two callers, and a frame that can be larger or smaller in the same place.
std::string wrapper_code(int bytes) {
  std::string text("__attribute__((noinline)) void wrap(void (*f)(void)) {\n  volatile char room[");
  text += std::to_string(bytes);
  return text +=
         "];\n  room[0] = 1; f(); room[1] = 1; }\n"
         "void one(void (*f)(void)) { wrap(f); __asm__ volatile(\"\"); }\n"
         "void two(void (*f)(void)) { volatile char deeper[64]; deeper[0] = 1; wrap(f);\n"
         "  deeper[1] = 1; }\n";
}

class ProcessCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    model_ = folder_.compile("empty", "") + ".model";
    ASSERT_TRUE(code_.name_by(&symboliser_));
    open(&worker_, TestModel());
    self_ = this;
  }
  void open(ContextWorker* worker, const TestModel& model) {
    std::ofstream(model_) << model.bytes();
    char error[512] = "";
    Evaluator* evaluator = Evaluator::load(model_.c_str(), arena_, error, sizeof(error));
    ASSERT_NE(evaluator, nullptr) << error;
    ASSERT_TRUE(
        worker->open(*evaluator, code_, {model_.c_str(), "test", 1}, arena_, error, sizeof(error)))
        << error;
  }

  // Does what an allocation of a first-seen context does; notes its return address and key.
  [[gnu::noinline]] static void allocate() {
    const CallSite site{reinterpret_cast<uintptr_t>(__builtin_return_address(0)),
                        reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) + 16};
    const auto choice = self_->placement_.choose(site, own_stack_down_to(site.stack_pointer), 3);
    self_->site_ = site.return_address;
    self_->key_ = choice.key;
    if (!choice.miss) return;
    Miss* miss = self_->now_->queue().reserve(false);
    ASSERT_NE(miss, nullptr);
    miss->key = choice.key;
    miss->site_key = PredictionCache::site_key(site, 3);
    miss->size = 48;
    miss->recheck = false;
    take_snapshot(site.return_address, miss->stack, Miss::kStackBytes, &miss->snapshot);
    self_->now_->queue().submit(miss);
  }
  [[gnu::noinline]] static void call(void (*f)()) {
    f();
    asm volatile("");
  }
  // What a worker with this model says of a context: always the same one.
  [[gnu::noinline]] LifetimeClass answer_of(const TestModel& model) {
    ContextWorker worker;
    open(&worker, model);
    cache_->clear();
    now_ = &worker;
    allocate();
    work();
    now_ = &worker_;
    return cache_->find(key_).lifetime;
  }
  void work() { now_->work(placement_, counters_, system_pages); }
  uint32_t frame_bytes() const { return cache_->sites.frame_bytes(site_); }

  using Wrapper = void (*)(void (*)());
  void teach(const LoadedPlugin& plugin) {
    for (int i = 0; i < 3; ++i) {
      plugin.find<Wrapper>("one")(allocate);
      plugin.find<Wrapper>("two")(allocate);
      work();
    }
  }

  static inline ProcessCodeTest* self_ = nullptr;
  PluginFolder folder_;
  std::string model_;
  MetadataArena arena_{system_pages};
  Counters counters_;
  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
  Placement placement_{*cache_, counters_};
  Symboliser symboliser_{arena_, system_pages};
  ProcessCode code_;
  ContextWorker worker_;
  ContextWorker* now_ = &worker_;
  uintptr_t site_ = 0;
  uint64_t key_ = 0;
};

TEST_F(ProcessCodeTest, WhatAModuleTaughtGoesWithIt) {
  const std::string large = folder_.compile("large", wrapper_code(16000));
  call(allocate);
  work();
  const uint64_t own_key = key_;
  auto plugin = std::make_unique<LoadedPlugin>(large);
  teach(*plugin);
  const uintptr_t site = site_;
  const uint64_t key = key_;
  ASSERT_GT(frame_bytes(), 16000u) << "the wrapper was not found out";
  ASSERT_TRUE(cache_->find(key).found);
  plugin.reset();
  work();
  EXPECT_EQ(cache_->sites.frame_bytes(site), 0u);
  EXPECT_FALSE(cache_->find(key).found);
  EXPECT_TRUE(cache_->find(own_key).found) << "the program taught that";
  EXPECT_GT(counters_.get(Stat::predict_forgotten), 0u);
}

TEST_F(ProcessCodeTest, AnotherBuildInItsPlaceTeachesAnew) {
  for (const char* flags : {"-Wl,--build-id=sha1", "-Wl,--build-id=none"}) {
    const std::string large = folder_.compile("large", wrapper_code(16000), flags);
    const std::string small = folder_.compile("small", wrapper_code(400), flags);
    auto plugin = std::make_unique<LoadedPlugin>(large);
    teach(*plugin);
    const uintptr_t site = site_;
    ASSERT_GT(frame_bytes(), 16000u);
    plugin.reset();
    plugin = std::make_unique<LoadedPlugin>(small);
    work();
    EXPECT_EQ(cache_->sites.frame_bytes(site), 0u);
    teach(*plugin);
    if (site_ != site) GTEST_SKIP() << "it lies elsewhere";
    EXPECT_GT(frame_bytes(), 400u);
    EXPECT_LT(frame_bytes(), 1000u);
  }
}

TEST_F(ProcessCodeTest, AContextOfAGoneModuleIsNotEvaluated) {
  const std::string path = folder_.compile("brief", wrapper_code(100));
  auto plugin = std::make_unique<LoadedPlugin>(path);
  plugin->find<Wrapper>("one")(allocate);
  const uint64_t key = key_;
  EXPECT_TRUE(cache_->find(key).pending);
  plugin.reset();
  work();
  EXPECT_FALSE(cache_->find(key).found);
  EXPECT_EQ(counters_.get(Stat::predict_evaluated), 0u);
}

TEST_F(ProcessCodeTest, TheProgramsOwnStaysWhileModulesComeAndGo) {
  call(allocate);
  work();
  const uint64_t own_key = key_;
  const std::string path = folder_.compile("passing", wrapper_code(100));
  for (int i = 0; i < 50; ++i) {
    auto plugin = std::make_unique<LoadedPlugin>(path);
    plugin->find<Wrapper>("one")(allocate);
    work();
    plugin.reset();
    work();
    ASSERT_TRUE(cache_->find(own_key).found);
  }
  EXPECT_EQ(counters_.get(Stat::predict_evaluated), 51u);
}

// The exact table by the codes of this test's frames, the name table by the function.
TEST_F(ProcessCodeTest, GivesCodesAndNamesOfFrames) {
  using enum LifetimeClass;
  const LifetimeClass other = answer_of(TestModel()) == le_10s ? never : le_10s;
  TestModel model;
  model.set_table("exact", {ContextPath(code_of(site_), 48).key()},
                  std::string(1, static_cast<char>(other)));
  EXPECT_EQ(answer_of(model), other);
  char name[512];
  code_.name_frame(site_, name, sizeof(name));
  TestModel named;
  named.set_table("name", {ContextPath(frame_name_key(name), 48).key()},
                  std::string(2, static_cast<char>(other)));
  EXPECT_EQ(answer_of(named), other);
}

}  // namespace
}  // namespace llamalloc
