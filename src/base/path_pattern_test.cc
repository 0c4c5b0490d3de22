// SPDX-License-Identifier: Apache-2.0
#include "base/path_pattern.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace llamalloc {
namespace {

constexpr PathWords kWords{4711, "redis-server", 1700000000};

std::string filled(const char* pattern, size_t room = 100) {
  std::string out(room, 'x');
  const bool fits = fill_path(pattern, kWords, out.data(), room);
  out.resize(strlen(out.c_str()));
  return fits ? out : "too long" + out;
}

bool is_pattern(const char* text) {
  return is_path_pattern(text, strlen(text));
}

TEST(PathPattern, ReplacesItsWords) {
  EXPECT_EQ(filled("/a/b"), "/a/b");
  EXPECT_EQ(filled("/%e.%p.%t"), "/redis-server.4711.1700000000");
  EXPECT_EQ(filled("%p%p"), "47114711");
  EXPECT_EQ(filled("100%%.%%p"), "100%.%p");
  EXPECT_EQ(filled(""), "");
  EXPECT_EQ(filled("%x%"), "%x%");
}

TEST(PathPattern, APathThatHasNoRoomIsNotCut) {
  EXPECT_EQ(filled("%p", 5), "4711");
  EXPECT_EQ(filled("%p", 4), "too long");
  EXPECT_EQ(filled("abcd", 4), "too long");
  EXPECT_EQ(filled("%e%e", 20), "too long");
  EXPECT_EQ(filled("a", 1), "too long");
}

TEST(PathPattern, KnowsItsLetters) {
  EXPECT_TRUE(is_pattern(""));
  EXPECT_TRUE(is_pattern("/a"));
  EXPECT_TRUE(is_pattern("%p%e%t%%"));
  EXPECT_FALSE(is_pattern("%x"));
  EXPECT_FALSE(is_pattern("a%"));
  EXPECT_FALSE(is_pattern("%%%"));
  EXPECT_FALSE(is_pattern("% p"));
  EXPECT_FALSE(is_path_pattern("%p", 1));
}

TEST(PathPattern, OnlyThePidTellsProcessesApart) {
  EXPECT_TRUE(tells_processes_apart("/a.%p"));
  EXPECT_TRUE(tells_processes_apart("%e%p"));
  EXPECT_FALSE(tells_processes_apart("/a.%e.%t"));
  EXPECT_FALSE(tells_processes_apart("/a.%%p"));
  EXPECT_FALSE(tells_processes_apart("%"));
}

}  // namespace
}  // namespace llamalloc
