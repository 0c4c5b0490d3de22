// SPDX-License-Identifier: Apache-2.0
#include "predict/tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "predict/frame_name_key.h"
#include "predict/test_golden.h"

namespace llamalloc {
namespace {

using Strings = std::vector<std::string>;

std::string spelling(const Token& token) {
  std::string text;
  for (uint32_t i = 0; i < token.length; ++i) text += token.byte(i);
  return text;
}

Strings tokens_of(const Strings& frames, size_t size) {
  std::vector<const char*> names;
  for (const std::string& frame : frames) names.push_back(frame.c_str());
  TokenSequence sequence;
  sequence.assign(names.data(), static_cast<int>(names.size()), size);
  Strings result;
  for (const Token& token : sequence) result.push_back(spelling(token));
  return result;
}

TEST(Tokens, EqualTheGoldenCases) {
  GoldenReader golden("tokens.json");
  int cases = 0;
  golden.expect('[');
  for (bool first = true; golden.next(&first); ++cases) {
    golden.expect('{');
    golden.key("frames");
    const Strings frames = golden.strings();
    golden.expect(',');
    golden.key("size");
    const uint64_t size = golden.integer();
    golden.expect(',');
    golden.key("tokens");
    EXPECT_EQ(tokens_of(frames, size), golden.strings()) << "case " << cases;
    golden.expect('}');
  }
  EXPECT_GE(cases, 20);
}

TEST(Tokens, ReadMangledNames) {
  EXPECT_EQ(tokens_of({"_ZN3foo10HTTPServer3runEv", "main"}, 100),
            (Strings{"foo", "http", "server", "run", "@", "main", "#112"}));
  EXPECT_EQ(tokens_of({"_Z4294967296f"}, 1), (Strings{"#16"}));
  EXPECT_EQ(tokens_of({"_Z99999999999999999999999f3foo"}, 1), (Strings{"foo", "#16"}));
  EXPECT_EQ(tokens_of({"_Z01a"}, 1), (Strings{"a", "#16"}));
}

TEST(Tokens, ReadUnnamedFrames) {
  EXPECT_EQ(
      tokens_of({"?redis-server+0x1a2b0", "?libc.so.6", "?"}, 0),
      (Strings{"?redis-server", "?redis-server+0x1a2b0", "@", "?libc.so.6", "@", "?", "#16"}));
  EXPECT_EQ(tokens_of({"?libstdc++.so.6+0x1f"}, 1),
            (Strings{"?libstdc++.so.6", "?libstdc++.so.6+0x1f", "#16"}));
  EXPECT_EQ(tokens_of({"?a b\n+0x1"}, 1), (Strings{"?a_b_", "?a_b_+0x1", "#16"}));
}

TEST(Tokens, CutAtThe127thAndKeepTheSize) {
  const Strings sequence = tokens_of(Strings(100, "a_b_c_d"), 4096);
  ASSERT_EQ(sequence.size(), 128u);
  EXPECT_EQ(sequence[126], "b");  // frame 25 begins at 125
  EXPECT_EQ(sequence[127], "#4096");
}

TEST(Tokens, ReadThe32InnermostFrames) {
  const Strings sequence = tokens_of(Strings(100, "x"), 1);
  EXPECT_EQ(sequence.size(), 32u + 31u + 1u);
}

// As many bytes as a process looks up.
TEST(Tokens, TakeTheFirst511BytesOfAName) {
  const std::string longest(100'000, 'Q');
  EXPECT_EQ(tokens_of({longest}, 1)[0], std::string(511, 'q'));
  EXPECT_EQ(tokens_of({"_Z507" + longest}, 1).size(), 1u) << "the identifier is not whole";
}

TEST(FrameNameKey, IsOfTheFirst511Bytes) {
  const std::string name(511, 'Q');
  EXPECT_EQ(frame_name_key(name.c_str()), frame_name_key((name + "R.cold").c_str()));
  EXPECT_EQ(caller_name_key(name.c_str()), caller_name_key((name + "R").c_str()));
  EXPECT_NE(frame_name_key(name.c_str()), frame_name_key(name.c_str() + 1));
  const std::string unnamed = '?' + name;
  EXPECT_EQ(caller_name_key(unnamed.c_str()), caller_name_key((unnamed + "+0x10").c_str()));
}

TEST(Tokens, SizeAloneMakesASequence) {
  EXPECT_EQ(tokens_of({}, SIZE_MAX), (Strings{"#9223372036854775808"}));
}

}  // namespace
}  // namespace llamalloc
