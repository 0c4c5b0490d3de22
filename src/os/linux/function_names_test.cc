// SPDX-License-Identifier: Apache-2.0
// All names of modules at once, beside the symboliser, which names one address at a time.
#include "os/function_names.h"

#include <gtest/gtest.h>
#include <search.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "os/fake/fake_pages.h"
#include "os/symbols.h"
#include "os/test_plugin.h"
#include "os/unwind.h"

namespace llamalloc {
namespace {

struct Function {
  uint32_t begin, end;
  std::string name;
};
struct Names {
  uintptr_t low_in_file = 0;
  std::string file_name;
  size_t room = 0;
  bool read = false;
  std::vector<Function> functions;

  // By the rule of FunctionNames::add.
  std::string at(uint64_t offset) const {
    const Function* found = nullptr;
    for (const Function& f : functions)
      if (f.begin <= offset && offset < f.end && (found == nullptr || f.begin > found->begin))
        found = &f;
    return found != nullptr ? found->name : "";
  }
};

class Collector final : public FunctionNames {
 public:
  Want wants(const NamedModule& module) override {
    ++asked;
    if (only != 0 && module.build != only) return Want::nothing;
    now = &modules[module.build];
    *now = {module.low_in_file, module.file_name, 0, false, {}};
    return counted.empty() ? Want::all : Want::what_counts;
  }
  bool counts(const char* name, size_t length) override { return counted.contains({name, length}); }
  bool room_for(size_t functions) override {
    now->room = functions;
    return has_room;
  }
  void add(uint32_t begin, uint32_t end, const char* name, size_t length) override {
    now->functions.push_back({begin, end, {name, length}});
  }
  void end(bool read) override { now->read = read; }

  std::map<uint64_t, Names> modules;  // by build
  Names* now = nullptr;
  uint64_t only = 0;
  std::set<std::string> counted;  // none: all
  bool has_room = true;
  int asked = 0;
};

class FunctionNamesTest : public testing::Test {
 protected:
  std::string frame_name(uintptr_t return_address) {
    char out[512];
    symboliser_.frame_name(return_address, out, sizeof(out));
    return out;
  }
  template <typename F>
  static uintptr_t pc(F* function) {
    return reinterpret_cast<uintptr_t>(function) + 1;
  }
  static CodeModule place(uintptr_t return_address) {
    CodeModule place;
    EXPECT_TRUE(find_code_module(return_address, &place));
    return place;
  }

  FakePages pages_;
  MetadataArena arena_{system_pages};
  Symboliser symboliser_{arena_, system_pages};
  Collector names_;
};

TEST_F(FunctionNamesTest, AreThoseOfTheSymboliser) {
  visit_function_names(names_, pages_);
  std::mt19937_64 random{7};
  for (const uintptr_t inside :
       {pc(&qsort), reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "_Znwm")) + 1,
        pc(&visit_function_names)}) {
    const CodeModule where = place(inside);
    const Names& module = names_.modules[where.build];
    ASSERT_TRUE(module.read);
    ASSERT_GE(module.room, module.functions.size());
    ASSERT_GT(module.functions.size(), 1000u);
    EXPECT_TRUE(std::ranges::is_sorted(module.functions, {}, &Function::begin));
    for (int i = 0; i < 300; ++i) {
      const Function& f = module.functions[random() % module.functions.size()];
      for (const uint64_t offset : {f.begin, f.begin + (f.end - f.begin) / 2, f.end - 1, f.end}) {
        const std::string right = frame_name(where.low + offset + 1);
        const std::string mine = module.at(offset);
        EXPECT_EQ(mine, right[0] == '?' ? "" : right) << module.file_name << '+' << offset;
      }
    }
  }
  EXPECT_EQ(pages_.mapped, 0u) << "all scratch memory goes back";
}

// Whatever covers a part of a function that counts is there, too.
TEST_F(FunctionNamesTest, WhatCountsIsNamedAsAmongAll) {
  visit_function_names(names_, system_pages);
  std::mt19937_64 random{3};
  const Names& all = names_.modules[place(pc(&lfind)).build];
  Collector some;
  for (int i = 0; i < 40; ++i)
    some.counted.insert(all.functions[random() % all.functions.size()].name);
  visit_function_names_at(pc(&lfind), some, pages_);
  ASSERT_LT(some.now->functions.size(), all.functions.size() / 2);
  int named = 0;
  for (const Function& f : all.functions)
    for (const uint64_t offset : {f.begin, f.end - 1}) {
      const std::string right = all.at(offset), mine = some.now->at(offset);
      if (!some.counted.contains(right)) {
        EXPECT_FALSE(some.counted.contains(mine)) << mine << " for " << right;
      } else {
        EXPECT_EQ(mine, right);
        ++named;
      }
    }
  EXPECT_GE(named, 50);
  EXPECT_EQ(pages_.mapped, 0u);
}

TEST_F(FunctionNamesTest, OneModuleAloneIsReadAsAllAre) {
  visit_function_names(names_, system_pages);
  Collector alone;
  const uintptr_t address = pc(&lfind);
  visit_function_names_at(address, alone, system_pages);
  ASSERT_EQ(alone.modules.size(), 1u);
  const Names& all = names_.modules[place(address).build];
  const Names& one = alone.modules[place(address).build];
  EXPECT_TRUE(one.read);
  EXPECT_EQ(one.file_name, all.file_name);
  EXPECT_EQ(one.low_in_file, all.low_in_file);
  EXPECT_EQ(one.functions.size(), all.functions.size());
  EXPECT_EQ(one.at(address - 1 - place(address).low), "lfind");
  Collector none;
  visit_function_names_at(0x1000, none, system_pages);
  EXPECT_EQ(none.asked, 0) << "no module";
}

TEST_F(FunctionNamesTest, WhatIsNotWantedIsNotRead) {
  names_.only = place(pc(&lfind)).build;
  visit_function_names(names_, system_pages);
  EXPECT_EQ(names_.modules.size(), 1u);
  EXPECT_GT(names_.asked, 1);
  names_.has_room = false;
  visit_function_names(names_, pages_);
  EXPECT_TRUE(names_.modules.begin()->second.functions.empty());
  EXPECT_EQ(pages_.mapped, 0u);
}

TEST_F(FunctionNamesTest, APluginsNamesArePrintableAndGoWithItsFile) {
  const PluginFolder folder;
  const std::string code =
      "int f(void) __asm__(\"od\\303d\");\nint f(void) { return 1; }\nint (*get(void))(void) { "
      "return f; }\n";
  const std::string path = folder.compile("odd", code);
  const LoadedPlugin plugin(path);
  const uintptr_t address = pc(plugin.find<void* (*)()>("get")());
  visit_function_names_at(address, names_, system_pages);
  ASSERT_EQ(names_.modules.size(), 1u);
  EXPECT_EQ(names_.now->file_name, "odd.so");
  EXPECT_EQ(names_.now->at(address - 1 - place(address).low), "od_d");
  EXPECT_EQ(frame_name(address), "od_d");
  folder.compile("odd", "int other;");  // another file
  visit_function_names_at(address, names_, system_pages);
  EXPECT_TRUE(names_.now->read) << "it has no names";
  EXPECT_EQ(names_.now->functions.size(), 0u);
}

TEST_F(FunctionNamesTest, ALoadedFileCutShortHasNone) {
  const PluginFolder folder;
  const std::string path = folder.compile("cut", "int f(void) { return 1; }");
  const auto body = [&] {
    const LoadedPlugin cut(path);
    if (truncate(path.c_str(), 0) != 0) _exit(1);
    visit_function_names(names_, system_pages);
    for (const auto& [build, module] : names_.modules)
      if (module.file_name == "cut.so") _exit(2);
    _exit(names_.modules.empty() ? 3 : 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(FunctionNamesTest, WithoutADescriptorOrMemoryTheyAreNotKnownNow) {
  rlimit before, none;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  visit_function_names_at(pc(&lfind), names_, system_pages);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(names_.modules.size(), 1u);
  EXPECT_FALSE(names_.now->read);
  for (int budget = 0; budget < 3; ++budget) {
    FakePages few;
    few.calls_left = budget;
    Collector poor;
    visit_function_names_at(pc(&lfind), poor, few);
    EXPECT_TRUE(poor.modules.empty() || !poor.now->read) << budget;
    EXPECT_EQ(few.mapped, 0u);
  }
}

}  // namespace
}  // namespace llamalloc
