// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace llamalloc {
namespace {

std::string fault;

// The faults that a configuration gives.
std::string parse(Options* options, const char* text, bool secure = false) {
  fault.clear();
  options->parse(text, secure, [](const char* message) { fault += message; });
  return fault;
}

TEST(Options, AReactionIsOneOfTwoWords) {
  Options options;
  EXPECT_EQ(options.on_misuse, OnMisuse::abort);
  EXPECT_EQ(parse(&options, "on_misuse:report"), "");
  EXPECT_EQ(options.on_misuse, OnMisuse::report);
  EXPECT_NE(parse(&options, "on_misuse:1").find("neither abort nor report"), std::string::npos);
  EXPECT_EQ(options.on_misuse, OnMisuse::report);
  EXPECT_EQ(parse(&options, "on_misuse:ABORT"), "");
  EXPECT_EQ(options.on_misuse, OnMisuse::abort);
}

TEST(Options, GetReadsWhatWasSet) {
  Options options;
  EXPECT_EQ(parse(&options, "retain:3MiB,stats:/a/b,hardened:on,on_misuse:report"), "");
  Options::Value value;
  EXPECT_TRUE(options.get("retain", &value));
  EXPECT_EQ(value.number, 3u << 20);
  EXPECT_EQ(value.text, nullptr);
  EXPECT_TRUE(options.get("stats", &value));
  EXPECT_STREQ(value.text, "/a/b");
  EXPECT_TRUE(options.get("hardened", &value));
  EXPECT_EQ(value.number, 1u);
  EXPECT_TRUE(options.get("on_misuse", &value));
  EXPECT_STREQ(value.text, "report");
  EXPECT_FALSE(options.get("retai", &value));
}

TEST(Options, PathsAreRefusedUnderRaisedPrivileges) {
  Options options;
  EXPECT_NE(parse(&options, "stats:/a/b,retain:1MiB", true), "");
  EXPECT_EQ(options.stats.text[0], 0);
  EXPECT_EQ(options.retain, 1u << 20);
}

}  // namespace
}  // namespace llamalloc
