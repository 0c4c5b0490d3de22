// SPDX-License-Identifier: Apache-2.0
#include "profile/named_frames.h"

#include <gtest/gtest.h>

#include <string>

#include "profile/profile_test_util.h"

namespace llamalloc {
namespace {

// One place where modules come and go.
class Place final : public FrameNames {
 public:
  void load(uint64_t image, const std::string& function) {
    image_ = image, function_ = function;
    ++changes_;
  }
  void unload() { load(0, ""); }

  size_t frame_name(uintptr_t, char* out, size_t room, uint64_t image) override {
    ++asked;
    was_starved_ = (starved && is_it(image)) || (image != 0 && image == unread);
    const char* const name = was_starved_ ? "?module" : is_it(image) ? function_.c_str() : "?";
    return static_cast<size_t>(snprintf(out, room, "%s", name));
  }
  bool was_starved() const override { return was_starved_; }
  bool module_of(uintptr_t, ModuleInfo* out, uint64_t image) override {
    if (!is_it(image)) return false;
    *out = {};
    out->start = 0x1000, out->limit = 0x2000, out->image = image_;
    return true;
  }
  uint64_t changes() override { return changes_; }

  int asked = 0;
  bool starved = false;
  uint64_t unread = 0;  // an image beside it whose file cannot be read

 private:
  bool is_it(uint64_t image) const { return image_ != 0 && (image == 0 || image == image_); }

  uint64_t image_ = 0;
  bool was_starved_ = false;
  std::string function_;
  uint64_t changes_ = 1;
};

class NamedFramesTest : public testing::Test {
 protected:
  // The frame of the address in the image; named is asked right away if `look`.
  uint32_t sample(uint64_t image, bool look = true) {
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = 0x1800;
    trace.images[0] = image;
    const uint32_t frame = stacks_.frame(stacks_.intern(trace), 0);
    if (look) this->look();
    return frame;
  }
  std::string name(uint32_t frame) { return {named_->name(frame), named_->name_length(frame)}; }
  bool has_module(uint32_t frame) { return named_->module(frame) != NamedFrames::kNoModule; }
  void look() { EXPECT_TRUE(named_->update(stacks_, place_)); }
  void use_up_modules() {
    for (uint64_t i = 1; i < StackTable::kMostModules; ++i) sample(i << 32, false);
    look();
  }

  MetadataArena arena_{system_pages};
  StackTable stacks_{arena_};
  NamedFrames* named_ = arena_.make<NamedFrames>(arena_);
  Place place_;
};

TEST_F(NamedFramesTest, WhatWasNamedKeepsItsNameAndModule) {
  place_.load(1, "apple");
  const uint32_t first = sample(1);
  place_.unload();
  look();
  place_.load(2, "berry");
  const uint32_t second = sample(2);
  EXPECT_EQ(name(first), "apple");
  EXPECT_EQ(name(second), "berry");
  EXPECT_TRUE(has_module(first));
  EXPECT_NE(named_->module(first), named_->module(second));
  EXPECT_EQ(place_.asked, 2);
}

TEST_F(NamedFramesTest, WhatWasGoneBeforeAnybodyLookedIsNamedWhenItComesBack) {
  place_.load(1, "apple");
  const uint32_t frame = sample(1, false);
  place_.load(2, "berry");
  look();
  EXPECT_EQ(name(frame), "?");
  EXPECT_FALSE(has_module(frame));
  place_.load(1, "apple");
  look();
  EXPECT_EQ(name(frame), "apple");
  EXPECT_TRUE(has_module(frame));
}

// After so many modules those that follow share a frame: named while all have the same name.
TEST_F(NamedFramesTest, ASharedFrameIsNamedOnlyIfAllAgree) {
  use_up_modules();
  place_.load(77, "apple");
  const uint32_t frame = sample(77);
  EXPECT_EQ(name(frame), "apple");
  place_.load(78, "apple");
  EXPECT_EQ(sample(78), frame);
  EXPECT_EQ(name(frame), "apple");
  place_.unload();
  look();
  EXPECT_EQ(name(frame), "apple");
  place_.load(79, "berry");
  EXPECT_EQ(sample(79), frame);
  EXPECT_EQ(name(frame), "?");
  EXPECT_FALSE(has_module(frame));
  place_.load(80, "apple");
  look();
  EXPECT_EQ(name(frame), "?");
}

TEST_F(NamedFramesTest, CodeOfNoModuleIsNotNamedByOneThatComesLater) {
  const uint32_t frame = sample(0);
  place_.load(1, "apple");
  look();
  EXPECT_EQ(name(frame), "?");
}

// With no descriptor left a file cannot be read.
TEST_F(NamedFramesTest, WhatCannotBeNamedNowIsAskedAgain) {
  place_.load(1, "apple");
  place_.starved = true;
  const uint32_t frame = sample(1);
  EXPECT_EQ(name(frame), "?module");
  EXPECT_TRUE(has_module(frame));
  for (int i = 0; i < 1000; ++i) look();
  EXPECT_LT(place_.asked, 20) << "less and less often";
  place_.starved = false;
  for (int i = 0; i < 1000; ++i) look();
  EXPECT_EQ(name(frame), "apple");
  const int asked = place_.asked;
  for (int i = 0; i < 1000; ++i) look();
  EXPECT_EQ(place_.asked, asked);
}

TEST_F(NamedFramesTest, AModuleThatWentBeforeItsNamesWereReadIsKept) {
  place_.load(1, "apple");
  place_.starved = true;
  const uint32_t frame = sample(1);
  place_.unload();
  place_.starved = false;
  look();
  EXPECT_EQ(name(frame), "?module");
  EXPECT_TRUE(has_module(frame));
}

TEST_F(NamedFramesTest, WantOfADescriptorStopsAtTheFirst) {
  place_.load(1, "apple");
  place_.starved = true;
  StackTrace trace;
  trace.depth = 20;
  for (uintptr_t i = 0; i < 20; ++i) trace.frames[i] = 0x1100 + i, trace.images[i] = 1;
  stacks_.intern(trace);
  look();
  const int asked = place_.asked;
  look();
  EXPECT_EQ(place_.asked, asked + 1);
}

TEST_F(NamedFramesTest, WantOfADescriptorDoesNotHideAModuleThatCame) {
  place_.unread = 1;
  EXPECT_EQ(name(sample(1)), "?module");
  const uint32_t frame = sample(2);
  EXPECT_EQ(name(frame), "?");
  place_.load(2, "berry");
  look();
  EXPECT_EQ(name(frame), "berry");
}

// What it had stays, and is no other name of a shared frame.
TEST_F(NamedFramesTest, ANameIsNotLostForWantOfADescriptor) {
  use_up_modules();
  place_.load(77, "apple");
  const uint32_t frame = sample(77);
  place_.starved = true;
  place_.load(78, "apple");
  look();
  EXPECT_EQ(name(frame), "apple");
  place_.starved = false;
  for (int i = 0; i < 10; ++i) look();
  EXPECT_EQ(name(frame), "apple");
  place_.load(79, "berry");
  look();
  EXPECT_EQ(name(frame), "?");
}

TEST_F(NamedFramesTest, AsksAgainOnlyWhenModulesCameOrWent) {
  place_.load(1, "apple");
  const uint32_t frame = sample(5);
  EXPECT_EQ(name(frame), "?");
  const int asked = place_.asked;
  for (int i = 0; i < 10; ++i) look();
  EXPECT_EQ(place_.asked, asked);
}

}  // namespace
}  // namespace llamalloc
