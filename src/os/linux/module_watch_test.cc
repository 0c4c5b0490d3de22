// SPDX-License-Identifier: Apache-2.0
#include "os/module_watch.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "os/pages.h"
#include "os/test_plugin.h"

namespace llamalloc {
namespace {

constexpr const char* kPlain = "-Wl,--build-id=none";

// Functions of two shapes, so that the place is the same and the code is not.
std::string code(int n) {
  std::string text("int touched; int touch(int x) { return touched += x * ");
  return (text += std::to_string(n)) += "; }\n";
}

class ModuleWatchTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(watch_.open(arena_)); }
  void TearDown() override { EXPECT_TRUE(watch_.is_consistent()); }

  // Loads it and looks: place_ is in its code, mark_ is its mark.
  void load(const std::string& path) {
    plugin_ = std::make_unique<LoadedPlugin>(path);
    place_ = plugin_->address("touch") + 5;
    watch_.look();
    mark_ = watch_.mark_of(place_);
  }
  // Unloads it and loads the other; whether that lies in the same place.
  bool replace(const std::string& path) {
    plugin_.reset();
    plugin_ = std::make_unique<LoadedPlugin>(path);
    return plugin_->address("touch") + 5 == place_;
  }

  PluginFolder folder_;
  MetadataArena arena_{system_pages};
  ModuleWatch watch_;
  std::unique_ptr<LoadedPlugin> plugin_;
  uintptr_t place_ = 0;
  uint8_t mark_ = 0;
  const uintptr_t here_ = reinterpret_cast<uintptr_t>(&system);
};

TEST_F(ModuleWatchTest, WhatWasThereAtTheStartHasNoMark) {
  EXPECT_EQ(watch_.mark_of(here_ + 5), 0);
  EXPECT_EQ(watch_.mark_of(0x1000), ModuleWatch::kUnknown);
  EXPECT_EQ(watch_.look(), 0);
  EXPECT_TRUE(watch_.stayed(here_ + 5));
}

TEST_F(ModuleWatchTest, WhatCameLaterIsMissedWhenItGoes) {
  const std::string path = folder_.compile("a", code(3));
  auto a = std::make_unique<LoadedPlugin>(path);
  const uintptr_t place = a->address("touch") + 5;
  EXPECT_EQ(watch_.mark_of(place), ModuleWatch::kUnknown) << "before the first look";
  EXPECT_EQ(watch_.look(), 0);
  const uint8_t mark = watch_.mark_of(place);
  EXPECT_NE(mark & ~ModuleWatch::kUnknown, 0);
  a.reset();
  EXPECT_EQ(watch_.look(), mark | ModuleWatch::kUnknown);
  EXPECT_EQ(watch_.look(), 0) << "said once";
  EXPECT_FALSE(watch_.stayed(place));
  EXPECT_TRUE(watch_.stayed(here_ + 5));
}

TEST_F(ModuleWatchTest, AnotherBuildInTheSamePlaceIsAnotherModule) {
  for (const char* flags : {"-Wl,--build-id=sha1", kPlain}) {
    const std::string first = folder_.compile("first", code(3), flags);
    const std::string second = folder_.compile("second", code(5), flags);
    load(first);
    if (!replace(second)) GTEST_SKIP() << "it lies elsewhere";
    EXPECT_EQ(watch_.look() & mark_, mark_) << flags;
    EXPECT_FALSE(watch_.stayed(place_));
    EXPECT_NE(watch_.mark_of(place_), mark_);
    plugin_.reset();
    watch_.look();
  }
}

// It would teach the same again.
TEST_F(ModuleWatchTest, TheSameBuildInTheSamePlaceStays) {
  const std::string path = folder_.compile("a", code(3));
  load(path);
  if (!replace(path)) GTEST_SKIP() << "it lies elsewhere";
  EXPECT_EQ(watch_.look(), ModuleWatch::kUnknown) << "others may have come and gone";
  EXPECT_TRUE(watch_.stayed(place_));
  EXPECT_EQ(watch_.mark_of(place_), mark_);
}

TEST_F(ModuleWatchTest, OthersStayWhereverModulesComeAndGo) {
  const LoadedPlugin kept(folder_.compile("kept", code(2)));
  watch_.look();
  const uintptr_t place = kept.address("touch") + 5;
  const uint8_t mark = watch_.mark_of(place);
  const std::string path = folder_.compile("passing", code(3));
  for (int i = 0; i < 100; ++i) {
    auto plugin = std::make_unique<LoadedPlugin>(path);
    if (i % 3 != 0) watch_.look();
    plugin.reset();
    EXPECT_NE(watch_.look(), 0);
    EXPECT_TRUE(watch_.stayed(place));
    EXPECT_EQ(watch_.mark_of(place), mark);
    EXPECT_TRUE(watch_.is_consistent());
  }
}

// Nobody may run its code any more, but who does not, lives on.
TEST_F(ModuleWatchTest, ALoadedFileCutShortIsSurvived) {
  const std::string path = folder_.compile("cut", code(3)),
                    other = folder_.compile("other", code(5));
  const auto body = [&] {
    const LoadedPlugin cut(path);
    watch_.look();
    if (truncate(path.c_str(), 0) != 0) _exit(1);
    const LoadedPlugin later(other);
    watch_.look();
    _exit(watch_.mark_of(later.address("touch") + 5) != ModuleWatch::kUnknown ? 0 : 2);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace llamalloc
