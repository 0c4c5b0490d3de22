// SPDX-License-Identifier: Apache-2.0
// Which frames of one build are found in another one, and which must not be.
#include "learning/learned_frames.h"

#include <gtest/gtest.h>

#include "learning/test_functions.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr uint32_t kOffset = 0x25;

class LearnedFramesTest : public testing::Test {
 protected:
  ~LearnedFramesTest() override {
    match_.give_back();
    EXPECT_EQ(pages_.mapped, 0u);
  }
  void find(std::vector<LearnedFrame> frames, TestFunctions& functions) {
    std::ranges::sort(frames, {}, &LearnedFrame::code);
    match_.give_back();
    match_ = FrameMatch();
    ASSERT_TRUE(match_.find(frames, functions, pages_));
  }
  uint64_t here(uint64_t code, uint32_t place = 0) { return match_.find_here(code, place).code; }

  FakePages pages_;
  FrameMatch match_;
};

TEST_F(LearnedFramesTest, AFunctionThatLiesElsewhereIsFound) {
  TestFunctions before(kOld, {1, 2, 3, 4}), now(kNew, {9, 1, 2, 8, 7, 3, 4});
  find({before.frame(0, kOffset), before.frame(2, 0x40)}, now);
  EXPECT_EQ(here(before.code(0, kOffset)), now.code(1, kOffset));
  EXPECT_EQ(here(before.code(2, 0x40)), now.code(5, 0x40));
  EXPECT_EQ(here(before.code(1, kOffset)), 0u) << "not of the file";
  const LearnedFrame moved = match_.find_here(before.code(0, kOffset), 0);
  EXPECT_EQ(moved.function, now.function(1).shape) << "so that it is found in the next build";
  EXPECT_EQ(moved.build, kNew);
  EXPECT_EQ(moved.offset, kOffset);
}

TEST_F(LearnedFramesTest, InItsOwnBuildAFrameStaysWhereItIs) {
  TestFunctions same(kOld, {1, 5, 5, 5, 5, 3});
  find({same.frame(2, kOffset), same.frame(3, kOffset), same.frame(0, kOffset)}, same);
  for (const size_t i : {0, 2, 3})
    EXPECT_EQ(here(same.code(i, kOffset)), same.code(i, kOffset)) << i;
}

TEST_F(LearnedFramesTest, NeighboursTellApartWhatLooksAlike) {
  TestFunctions before(kOld, {1, 5, 2, 3, 5, 4}), now(kNew, {1, 5, 2, 9, 3, 5, 4});
  find({before.frame(1, kOffset), before.frame(4, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), now.code(1, kOffset));
  EXPECT_EQ(here(before.code(4, kOffset)), now.code(5, kOffset));
  TestFunctions changed(kNew, {1, 5, 9, 8, 5, 4});
  find({before.frame(1, kOffset), before.frame(4, kOffset)}, changed);
  EXPECT_EQ(here(before.code(1, kOffset)), changed.code(1, kOffset)) << "by the one in front";
  EXPECT_EQ(here(before.code(4, kOffset)), changed.code(4, kOffset));
}

TEST_F(LearnedFramesTest, WhatCannotBeToldApartIsNotTaken) {
  TestFunctions before(kOld, {1, 5, 2}), now(kNew, {1, 5, 3, 9, 5, 2});
  find({before.frame(1, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), 0u) << "each has one of its neighbours";
  TestFunctions alone(kNew, {8, 5, 9});
  find({before.frame(1, kOffset)}, alone);
  EXPECT_EQ(here(before.code(1, kOffset)), 0u) << "it may be another one that looks the same";
}

// As short wrappers do, side by side: how far the next other function is tells them apart.
TEST_F(LearnedFramesTest, OfARunThatLooksAlikeEachKeepsItsPlace) {
  TestFunctions before(kOld, {1, 5, 5, 5, 5, 2}), now(kNew, {7, 9, 5, 5, 5, 5, 2});
  find({before.frame(1, kOffset), before.frame(2, kOffset), before.frame(4, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), now.code(2, kOffset));
  EXPECT_EQ(here(before.code(2, kOffset)), now.code(3, kOffset));
  EXPECT_EQ(here(before.code(4, kOffset)), now.code(5, kOffset));
}

// One of two that looked alike is gone: the other must not stand for both.
TEST_F(LearnedFramesTest, APlaceIsNotGivenTwice) {
  TestFunctions before(kOld, {1, 5, 2, 3, 5, 4}), now(kNew, {1, 5, 4});
  find({before.frame(1, kOffset), before.frame(4, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), 0u);
  EXPECT_EQ(here(before.code(4, kOffset)), 0u);
  TestFunctions one_of_them(kNew, {8, 5, 2});
  find({before.frame(1, kOffset), before.frame(1, 0x30), before.frame(4, kOffset)}, one_of_them);
  EXPECT_EQ(here(before.code(1, kOffset)), one_of_them.code(1, kOffset));
  EXPECT_EQ(here(before.code(1, 0x30)), one_of_them.code(1, 0x30)) << "another call in it";
  EXPECT_EQ(here(before.code(4, kOffset)), 0u);
}

// Two functions look alike, of which one has changed into the other's place.
TEST_F(LearnedFramesTest, ThePlaceBelongsToTheOneThatIsMoreAlike) {
  TestFunctions before(kOld, {1, 5, 2, 7, 5, 3}), now(kNew, {1, 5, 2, 7, 6, 3});
  before.calls(1, {{kOffset, 70}});
  before.calls(4, {{kOffset, 70}});
  now.calls(4, {{0x44, 70}});
  find({before.frame(1, kOffset), before.frame(4, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), now.code(1, kOffset));
  EXPECT_EQ(here(before.code(4, kOffset)), now.code(4, 0x44));
}

TEST_F(LearnedFramesTest, SeveralBuildsHaveTheSamePlace) {
  TestFunctions first(kOld, {1, 2, 3}), second(kOld + 1, {7, 1, 2, 3}), now(kNew, {1, 2, 8, 3});
  find({first.frame(1, kOffset), second.frame(2, kOffset)}, now);
  EXPECT_EQ(here(first.code(1, kOffset)), now.code(1, kOffset));
  EXPECT_EQ(here(second.code(2, kOffset)), now.code(1, kOffset));
}

TEST_F(LearnedFramesTest, AFunctionThatChangedIsTheOneBetweenTheSameNeighbours) {
  TestFunctions before(kOld, {1, 5, 2}), now(kNew, {9, 1, 6, 2});
  before.calls(1, {{0x10, 70}, {0x20, 80}, {0x30, 80}});
  now.calls(2, {{0x18, 80}, {0x28, 70}, {0x38, 90}, {0x48, 80}});
  find({before.frame(1, 0x10), before.frame(1, 0x20), before.frame(1, 0x30)}, now);
  EXPECT_EQ(here(before.code(1, 0x10)), now.code(2, 0x28));
  EXPECT_EQ(here(before.code(1, 0x20)), now.code(2, 0x18));
  EXPECT_EQ(here(before.code(1, 0x30)), now.code(2, 0x48));
}

TEST_F(LearnedFramesTest, ACallThatWasDoubledIsAtBothPlaces) {
  TestFunctions before(kOld, {1, 5, 2}), now(kNew, {1, 6, 2});
  before.calls(1, {{0x10, 70}});
  now.calls(1, {{0x18, 70}, {0x28, 70}});
  find({before.frame(1, 0x10)}, now);
  EXPECT_EQ(match_.places(), 2u);
  EXPECT_EQ(here(before.code(1, 0x10), 0), now.code(1, 0x18));
  EXPECT_EQ(here(before.code(1, 0x10), 1), now.code(1, 0x28));
  EXPECT_EQ(here(before.code(1, 0x10), 2), now.code(1, 0x18));
}

// A call became two, and another frame of that build stood where the second one is.
TEST_F(LearnedFramesTest, NoneOfSeveralPlacesIsGivenTwice) {
  TestFunctions before(kOld, {1, 5, 2}), now(kNew, {1, 6, 2});
  before.calls(1, {{0x10, 70}});
  now.calls(1, {{0x18, 70}, {0x28, 70}});
  LearnedFrame other = before.frame(1, 0x10);
  other.code = 99;
  other.call = {70, 1, 2};
  find({before.frame(1, 0x10), other}, now);
  EXPECT_EQ(here(before.code(1, 0x10)), 0u);
  EXPECT_EQ(here(99), 0u);
}

TEST_F(LearnedFramesTest, OtherCallsOfAChangedFunctionAreNotKnown) {
  TestFunctions before(kOld, {1, 5, 2}), now(kNew, {1, 6, 2});
  before.calls(1, {{0x10, 70}, {0x20, 70}, {0x30, 80}});
  now.calls(1, {{0x18, 70}, {0x28, 70}, {0x38, 70}});
  find({before.frame(1, 0x10), before.frame(1, 0x30), before.frame(1, 0x44)}, now);
  EXPECT_EQ(here(before.code(1, 0x10)), 0u) << "two were, three are";
  EXPECT_EQ(here(before.code(1, 0x30)), 0u) << "not called any more";
  EXPECT_EQ(here(before.code(1, 0x44)), 0u) << "no direct call";
}

TEST_F(LearnedFramesTest, WithoutMemoryNothingIsFound) {
  TestFunctions before(kOld, {1, 2, 3});
  const LearnedFrame frame = before.frame(1, kOffset);
  for (const int calls : {0, 1, 2, 3}) {
    pages_.calls_left = calls;
    EXPECT_FALSE(match_.find({&frame, 1}, before, pages_)) << calls;
    pages_.calls_left = INT64_MAX;
    match_.give_back();
    match_ = FrameMatch();
  }
}

// ----- Keeping -----

class KeepFramesTest : public testing::Test {
 protected:
  ~KeepFramesTest() override {
    frames_.give_back();
    seen_.give_back();
  }
  void meet(size_t i, uint32_t offset, uint64_t code) {
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = functions_.address(i, offset);
    trace.images[0] = 1;
    trace.codes[0] = code;
    stacks_.intern(trace);
  }
  void keep(std::vector<uint64_t> codes) {
    std::ranges::sort(codes);
    ASSERT_TRUE(seen_.look(codes, stacks_, functions_, pages_));
    ASSERT_TRUE(keep_frames(codes, seen_.view(), pages_, &frames_));
    EXPECT_TRUE(is_sorted(seen_.view()));
    EXPECT_TRUE(is_sorted(frames_.view()));
  }

  FakePages pages_;
  MetadataArena arena_{pages_};
  StackTable stacks_{arena_};
  TestFunctions functions_{kNew, {1, 2, 3}};
  SeenFrames seen_;
  FrameArray frames_;
};

TEST_F(KeepFramesTest, OfTheNodesAloneAndEachOnce) {
  meet(0, kOffset, functions_.code(0, kOffset));
  meet(1, kOffset, functions_.code(1, kOffset));
  keep({functions_.code(1, kOffset), 5});
  ASSERT_EQ(frames_.size(), 1u);
  EXPECT_EQ(frames_.data()[0].code, functions_.code(1, kOffset));
  EXPECT_EQ(frames_.data()[0].function, functions_.function(1).shape);
  keep({functions_.code(1, kOffset), functions_.code(0, kOffset)});
  EXPECT_EQ(frames_.size(), 2u);
  keep({functions_.code(0, kOffset)});
  EXPECT_EQ(frames_.size(), 1u);
}

// Looking takes microseconds each.
TEST_F(KeepFramesTest, EachFrameIsLookedAtOnce) {
  meet(0, kOffset, functions_.code(0, kOffset));
  meet(1, kOffset, 77);
  keep({functions_.code(0, kOffset), 77});
  EXPECT_EQ(functions_.looks, 2);
  keep({functions_.code(0, kOffset), 77});
  EXPECT_EQ(functions_.looks, 2);
}

TEST_F(KeepFramesTest, WhatTheFileHoldsStaysUnlessItWasSeen) {
  TestFunctions before(kOld, {1, 2, 3});
  ASSERT_TRUE(frames_.make_room(2, pages_));
  LearnedFrame stale = functions_.frame(1, kOffset);
  stale.call.count = 9;
  frames_.append(before.frame(2, kOffset));
  frames_.append(stale);
  sort_frames(&frames_);
  meet(1, kOffset, stale.code);
  keep({before.code(2, kOffset), stale.code});
  ASSERT_EQ(frames_.size(), 2u);
  for (const LearnedFrame& frame : frames_.view()) {
    EXPECT_EQ(frame.build == kOld, frame.code == before.code(2, kOffset));
    EXPECT_EQ(frame.call.count, 0);
  }
}

// A module that was unloaded, and another one where it was.
TEST_F(KeepFramesTest, AnotherFrameAtTheAddressIsNotIt) {
  meet(0, kOffset, 77);
  keep({77});
  EXPECT_EQ(frames_.size(), 0u);
}

TEST_F(KeepFramesTest, WithoutMemoryTheFileKeepsItsOwn) {
  ASSERT_TRUE(frames_.make_room(1, pages_));
  frames_.append(functions_.frame(1, kOffset));
  meet(1, kOffset, functions_.code(1, kOffset));
  const uint64_t code = functions_.code(1, kOffset);
  pages_.calls_left = 0;
  EXPECT_FALSE(seen_.look({&code, 1}, stacks_, functions_, pages_));
  EXPECT_FALSE(keep_frames({&code, 1}, seen_.view(), pages_, &frames_));
  EXPECT_EQ(frames_.size(), 1u);
  pages_.calls_left = INT64_MAX;
}

}  // namespace
}  // namespace llamalloc
