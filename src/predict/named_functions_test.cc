// SPDX-License-Identifier: Apache-2.0
#include "predict/named_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

// A model whose name table leads on from some functions, as sites or as callers.
class Known {
 public:
  explicit Known(const std::vector<std::string>& callers,
                 const std::vector<std::string>& sites = {}) {
    for (const std::string& name : callers) add(frame_name(name.c_str()).caller);
    for (const std::string& name : sites) add(frame_name(name.c_str()).function);
    std::ranges::sort(keys_);
    answers_.assign(2 * keys_.size(), NodeTable::kOpen);
    evidence.names = NodeTable(keys_.data(), answers_.data(), keys_.size(), 2);
  }
  ModelEvidence evidence;

 private:
  void add(uint64_t number) { keys_.push_back(ContextPath(number, 0).key()); }
  std::vector<uint64_t> keys_;
  std::vector<uint8_t> answers_;
};

struct Function {
  uint32_t begin, end;
  std::string name;
};

class NamedFunctionsTest : public testing::Test {
 protected:
  const NamedFunctions::Module* add(const ModelEvidence& evidence,
                                    const std::vector<Function>& functions, bool read = true,
                                    const char* file = "lib") {
    EXPECT_TRUE(named_.open(evidence, arena_, scratch_));
    add_to(functions, read, file, 7);
    return named_.find(7);
  }
  void add_to(const std::vector<Function>& functions, bool read, const char* file, uint64_t build) {
    ASSERT_NE(named_.wants({build, 0x400000, file}), FunctionNames::Want::nothing);
    if (named_.room_for(functions.size()))
      for (const Function& f : functions) named_.add(f.begin, f.end, f.name.data(), f.name.size());
    named_.end(read);
    EXPECT_EQ(scratch_.mapped, 0u);
  }
  static FrameName find(const NamedFunctions::Module* module, uint64_t offset) {
    FrameName name;
    EXPECT_TRUE(module->find(offset, &name)) << offset;
    return name;
  }
  static bool has(const NamedFunctions::Module* module, uint64_t offset) {
    FrameName name;
    return module->find(offset, &name);
  }

  MetadataArena arena_{system_pages};
  FakePages scratch_;
  NamedFunctions named_;
};

TEST_F(NamedFunctionsTest, KeepsWhatTheModelKnows) {
  const Known model({"a", "c"}, {"s"});
  const auto* module =
      add(model.evidence, {{10, 20, "a.part.0"}, {20, 30, "b"}, {30, 40, "c"}, {40, 50, "s"}});
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->rows(), 3u);
  EXPECT_EQ(find(module, 10), frame_name("a"));
  EXPECT_EQ(find(module, 19), frame_name("a"));
  EXPECT_EQ(find(module, 39), frame_name("c"));
  EXPECT_EQ(find(module, 40), frame_name("s"));
  for (const uint64_t offset : {0, 9, 20, 29, 50, 1000}) EXPECT_FALSE(has(module, offset));
  EXPECT_EQ(module->unnamed(true, 20), FrameName()) << "nothing leads on from there";
}

TEST_F(NamedFunctionsTest, OneThatIsNotKnownHidesWhatItCovers) {
  const Known model({"outer", "alias"});
  const auto* module = add(model.evidence, {{10, 100, "outer"},
                                            {20, 30, "inner"},
                                            {40, 50, "first"},
                                            {40, 50, "alias"},
                                            {40, 60, "alias"}});
  EXPECT_EQ(find(module, 15), frame_name("outer"));
  EXPECT_EQ(find(module, 25), FrameName());
  EXPECT_EQ(find(module, 30), frame_name("outer"));
  EXPECT_EQ(find(module, 45), FrameName());
  EXPECT_EQ(find(module, 55), frame_name("alias"));
  EXPECT_EQ(find(module, 60), frame_name("outer"));
}

TEST_F(NamedFunctionsTest, WhereUnnamedFunctionsAreKnownAllNamedOnesAreKept) {
  const Known model({"?lib+0x400014", "a"});
  const auto* module = add(model.evidence, {{10, 20, "a"}, {30, 40, "b"}});
  EXPECT_EQ(module->rows(), 2u);
  EXPECT_TRUE(module->knows_unnamed());
  EXPECT_EQ(find(module, 35), FrameName());
  EXPECT_FALSE(has(module, 20));
  EXPECT_EQ(module->unnamed(true, 20), frame_name("?lib+0x400014"));
  EXPECT_EQ(module->unnamed(false, 0), frame_name("?lib"));
}

TEST_F(NamedFunctionsTest, WhatCouldNotBeReadIsNotThereAndMayComeLater) {
  const Known model({"a"});
  EXPECT_EQ(add(model.evidence, {{10, 20, "a"}}, false), nullptr);
  scratch_.calls_left = 0;
  add_to({{10, 20, "a"}}, true, "lib", 7);
  EXPECT_EQ(named_.find(7), nullptr);
  scratch_.calls_left = 10;
  add_to({{10, 20, "a"}}, true, "lib", 7);
  ASSERT_NE(named_.find(7), nullptr);
  EXPECT_EQ(named_.wants({7, 0, "lib"}), FunctionNames::Want::nothing) << "it is there";
}

TEST_F(NamedFunctionsTest, HoldsSoManyModules) {
  const Known model({"a"});
  add(model.evidence, {});
  for (uint64_t build = 1000; !named_.is_full(); ++build) add_to({}, true, "odd \xc3", build);
  EXPECT_EQ(named_.wants({1, 0, "lib"}), FunctionNames::Want::nothing);
  EXPECT_EQ(named_.find(1), nullptr);
  EXPECT_NE(named_.find(1000), nullptr);
}

// Beside the rule itself: the last begin, and there the first that covers the place.
TEST_F(NamedFunctionsTest, AgreesWithTheRuleWhereFunctionsOverlap) {
  std::mt19937 random{11};
  for (int round = 0; round < 200; ++round) {
    const bool all = round % 4 == 0;
    const Known model(all ? std::vector<std::string>{"?lib", "k0", "k1", "k2"}
                          : std::vector<std::string>{"k0", "k1", "k2"});
    std::vector<Function> functions;
    for (int i = 0; i < 40; ++i) {
      const uint32_t begin = random() % 200;
      const uint32_t end = begin + random() % (i % 5 == 0 ? 100 : 10);
      functions.push_back({begin, end, (random() % 2 ? "k" : "u") + std::to_string(random() % 3)});
    }
    std::ranges::stable_sort(functions, {}, &Function::begin);
    named_ = {};
    const auto* module = add(model.evidence, functions);
    ASSERT_TRUE(module->is_consistent());
    for (uint32_t offset = 0; offset < 320; ++offset) {
      const Function* right = nullptr;
      for (const Function& f : functions)
        if (f.begin <= offset && offset < f.end && (right == nullptr || f.begin > right->begin))
          right = &f;
      FrameName name;
      const bool found = module->find(offset, &name);
      const bool known = right != nullptr && right->name[0] == 'k';
      EXPECT_EQ(name, known ? frame_name(right->name.c_str()) : FrameName()) << offset;
      EXPECT_TRUE(!all || found == (right != nullptr)) << offset;
    }
  }
}

}  // namespace
}  // namespace llamalloc
