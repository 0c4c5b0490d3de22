// SPDX-License-Identifier: Apache-2.0
// Which frames of one build are found in another one, and which must not be.
#include "policy/learned_frames.h"

#include <gtest/gtest.h>

#include "os/fake/fake_pages.h"
#include "policy/test_functions.h"

namespace llamalloc {
namespace {

constexpr uint64_t kOld = 11, kNew = 22;
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
  TestFunctions before(kOld, {1, 2, 3}), now(kNew, {9, 1, 8, 2, 7, 3});
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
  TestFunctions before(kOld, {1, 5, 5, 5, 2}), now(kNew, {9, 5, 5, 5, 5, 2});
  find({before.frame(2, kOffset)}, now);
  EXPECT_EQ(here(before.code(2, kOffset)), 0u);
}

// As the instances of a template do, or short wrappers: all that look alike are still there.
TEST_F(LearnedFramesTest, OfAsManyThatLookAlikeItIsTheOneOfItsRank) {
  TestFunctions before(kOld, {1, 5, 5, 5, 5, 2}), now(kNew, {7, 9, 5, 5, 5, 5, 8});
  find({before.frame(1, kOffset), before.frame(2, kOffset), before.frame(4, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), now.code(2, kOffset));
  EXPECT_EQ(here(before.code(2, kOffset)), now.code(3, kOffset));
  EXPECT_EQ(here(before.code(4, kOffset)), now.code(5, kOffset));
  EXPECT_EQ(match_.find_here(before.code(2, kOffset), 0).rank.ordinal, 1);
  EXPECT_EQ(match_.find_here(before.code(2, kOffset), 0).rank.count, 4);
}

// One of two that looked alike is gone: the other must not stand for both.
TEST_F(LearnedFramesTest, APlaceIsNotGivenTwice) {
  TestFunctions before(kOld, {1, 5, 2, 3, 5, 4}), now(kNew, {8, 5, 9});
  find({before.frame(1, kOffset), before.frame(4, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), 0u);
  EXPECT_EQ(here(before.code(4, kOffset)), 0u);
  TestFunctions one_of_them(kNew, {8, 5, 2});
  find({before.frame(1, kOffset), before.frame(1, 0x30), before.frame(4, kOffset)}, one_of_them);
  EXPECT_EQ(here(before.code(1, kOffset)), one_of_them.code(1, kOffset));
  EXPECT_EQ(here(before.code(1, 0x30)), one_of_them.code(1, 0x30)) << "another call in it";
  EXPECT_EQ(here(before.code(4, kOffset)), 0u);
}

// Two short functions that look alike, as wrappers do: one of them changes.
TEST_F(LearnedFramesTest, OfTwoThatLookedAlikeTheOneWithItsNeighboursKeepsThePlace) {
  TestFunctions before(kOld, {1, 5, 5, 2}), now(kNew, {9, 1, 5, 6, 2});
  before.calls(1, {{kOffset, 70}});
  before.calls(2, {{kOffset, 70}});
  now.calls(3, {{0x44, 70}});
  find({before.frame(1, kOffset), before.frame(2, kOffset)}, now);
  EXPECT_EQ(here(before.code(1, kOffset)), now.code(2, kOffset));
  EXPECT_EQ(here(before.code(2, kOffset)), now.code(3, 0x44));
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
  for (const int calls : {0, 1}) {
    pages_.calls_left = calls;
    EXPECT_FALSE(match_.find({&frame, 1}, before, pages_)) << calls;
  }
}

// ----- Keeping -----

class KeepFramesTest : public testing::Test {
 protected:
  ~KeepFramesTest() override { frames_.give_back(); }
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
    ASSERT_TRUE(keep_frames(codes, stacks_, functions_, pages_, &frames_));
    EXPECT_TRUE(is_sorted(frames_.view()));
  }

  FakePages pages_;
  MetadataArena arena_{pages_};
  StackTable stacks_{arena_};
  TestFunctions functions_{kNew, {1, 2, 3}};
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

TEST_F(KeepFramesTest, WithItsRankAmongThoseThatLookAlike) {
  functions_ = TestFunctions(kNew, {5, 2, 5, 3, 5});
  for (const size_t i : {0, 1, 2}) meet(i, kOffset, functions_.code(i, kOffset));
  keep({functions_.code(0, kOffset), functions_.code(1, kOffset), functions_.code(2, kOffset)});
  ASSERT_EQ(frames_.size(), 3u);
  for (const LearnedFrame& frame : frames_.view()) {
    const bool is_alone = frame.function.self == 2;
    EXPECT_EQ(frame.rank.count, is_alone ? 1 : 3);
    EXPECT_EQ(frame.rank.ordinal, frame.code == functions_.code(2, kOffset) ? 1 : 0);
  }
}

TEST_F(KeepFramesTest, WhatTheFileHoldsStays) {
  TestFunctions before(kOld, {1, 2, 3});
  ASSERT_TRUE(frames_.make_room(1, pages_));
  frames_.append(before.frame(2, kOffset));
  keep({before.code(2, kOffset)});
  ASSERT_EQ(frames_.size(), 1u);
  EXPECT_EQ(frames_.data()[0].build, kOld);
}

// A module that was unloaded, and another one where it was.
TEST_F(KeepFramesTest, AnotherFrameAtTheAddressIsNotIt) {
  meet(0, kOffset, 77);
  keep({77});
  EXPECT_EQ(frames_.size(), 0u);
}

}  // namespace
}  // namespace llamalloc
