// SPDX-License-Identifier: Apache-2.0
// The names of real modules beside the symboliser's, at the start and later.
#include "runtime/model_names.h"

#include <gtest/gtest.h>
#include <search.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "os/symbols.h"
#include "os/test_plugin.h"
#include "os/unwind.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

const char kPlugin[] =
    "static int __attribute__((noinline)) hidden(int a) { __asm__ volatile(\"\"); return a; }\n"
    "int shown(int a) { return hidden(a) + 1; }\nvoid* inner(void) { return (void*)hidden; }\n";

class ModelNamesTest : public testing::Test {
 protected:
  ModelNamesTest() {
    for (const char* name : {"hidden", "shown", "lfind", "?bare.so+0x1000"})
      keys_.push_back(ContextPath(caller_name_key(name), 0).key());
    std::ranges::sort(keys_);
    answers_.assign(2 * keys_.size(), NodeTable::kOpen);
    model_.names = NodeTable(keys_.data(), answers_.data(), keys_.size(), 2);
  }
  std::string symbolised(uintptr_t address) {
    char out[512];
    symboliser_.frame_name(address, out, sizeof(out));
    return out;
  }
  FrameName name(uintptr_t address) {
    FrameName out;
    EXPECT_TRUE(try_name(address, &out));
    return out;
  }
  bool try_name(uintptr_t address, FrameName* out) {
    CodeModule last;
    return names_.name_frame(address, &last, out);
  }
  // As the symboliser, where the model knows it.
  void expect_right(uintptr_t address) {
    const FrameName right = frame_name(symbolised(address).c_str());
    EXPECT_EQ(name(address), model_.knows(right) ? right : FrameName()) << symbolised(address);
  }

  std::vector<uint64_t> keys_;
  std::vector<uint8_t> answers_;
  ModelEvidence model_;
  ModelNames names_;
  MetadataArena arena_{system_pages};
  Symboliser symboliser_{arena_, system_pages};
  const PluginFolder folder_;
};

template <typename F>
uintptr_t inside(F* function) {
  return reinterpret_cast<uintptr_t>(function) + 1;
}

TEST_F(ModelNamesTest, KnowsWhatWasLoadedAtTheStart) {
  ASSERT_TRUE(names_.open(model_));
  EXPECT_EQ(name(inside(&lfind)), frame_name("lfind"));
  expect_right(inside(&bsearch));
  expect_right(inside(&visit_function_names));
  FrameName none;
  EXPECT_FALSE(try_name(0x1000, &none)) << "no module";
}

TEST_F(ModelNamesTest, AModuleThatComesLaterIsReadByWhoMeetsIt) {
  ASSERT_TRUE(names_.open(model_));
  const std::string path = folder_.compile("later", kPlugin);
  const size_t before = process.arena.used_bytes();
  size_t after = 0;
  for (int i = 0; i < 3; ++i) {
    const LoadedPlugin plugin(path);
    EXPECT_EQ(name(plugin.address("shown") + 1), frame_name("shown"));
    EXPECT_EQ(name(inside(plugin.find<void* (*)()>("inner")())), frame_name("hidden"));
    expect_right(plugin.address("inner") + 1);
    if (i == 0) after = process.arena.used_bytes();
  }
  EXPECT_GT(after, before);
  EXPECT_EQ(process.arena.used_bytes(), after) << "loaded again, it is known";
}

TEST_F(ModelNamesTest, AStrippedModuleHasFunctionStarts) {
  const std::string path = folder_.compile("bare", kPlugin, "-s -Wl,--build-id=sha1");
  ASSERT_TRUE(names_.open(model_));
  const LoadedPlugin plugin(path);
  EXPECT_EQ(name(plugin.address("shown") + 1), frame_name("shown")) << "a dynamic symbol";
  const uintptr_t hidden = inside(plugin.find<void* (*)()>("inner")());
  EXPECT_EQ(name(hidden), frame_name(symbolised(hidden).c_str()));
  EXPECT_EQ(symbolised(hidden).substr(0, 11), "?bare.so+0x");
}

TEST_F(ModelNamesTest, WithoutADescriptorItIsNotKnownForAWhile) {
  ASSERT_TRUE(names_.open(model_));
  const LoadedPlugin plugin(folder_.compile("late", kPlugin));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  FrameName out;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool known = try_name(plugin.address("shown") + 1, &out);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(known);
  EXPECT_FALSE(try_name(plugin.address("shown") + 1, &out)) << "it waits";
  EXPECT_TRUE(try_name(inside(&lfind), &out)) << "others are known";
}

TEST_F(ModelNamesTest, AForkedChildReadsModulesToo) {
  ASSERT_TRUE(names_.open(model_));
  const LoadedPlugin plugin(folder_.compile("forked", kPlugin));
  const pid_t child = fork();
  if (child == 0) {
    names_.after_fork_in_child();
    FrameName out;
    const bool known = try_name(plugin.address("shown") + 1, &out);
    _exit(known && out == frame_name("shown") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace llamalloc
