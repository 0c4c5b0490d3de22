// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

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
  EXPECT_NE(parse(&options, "on_misuse:1").find("expected abort or report"), std::string::npos);
  EXPECT_EQ(options.on_misuse, OnMisuse::report);
  EXPECT_EQ(parse(&options, "on_misuse:ABORT"), "");
  EXPECT_EQ(options.on_misuse, OnMisuse::abort);
  EXPECT_EQ(options.segregate, Segregate::automatic);
  EXPECT_EQ(parse(&options, "segregate:never"), "");
  EXPECT_EQ(options.segregate, Segregate::never);
  EXPECT_EQ(parse(&options, "segregate:always"), "");
  EXPECT_EQ(options.segregate, Segregate::always);
  EXPECT_NE(parse(&options, "segregate:on").find("expected auto, always or never"),
            std::string::npos);
  EXPECT_EQ(parse(&options, "segregate:auto"), "");
  EXPECT_EQ(options.segregate, Segregate::automatic);
}

TEST(Options, BlanksAroundKeyAndValueCountForNothing) {
  Options options;
  EXPECT_EQ(parse(&options, " retain: 3MiB , stats:/a b,\tsegregate :never, "), "");
  EXPECT_EQ(options.retain, 3u << 20);
  EXPECT_STREQ(options.stats.text, "/a b");
  EXPECT_EQ(options.segregate, Segregate::never);
}

TEST(Options, AFaultyNumberIsToldHowToWriteIt) {
  Options options;
  for (const auto& [text, cure] : {std::pair{"retain:lots", "not a size; write it like 64MiB"},
                                   std::pair{"release_delay:soon", "not a time; write it like"},
                                   std::pair{"owner_pid:me", "not a number"},
                                   std::pair{"retain:9999TiB", "out of range; from 0 to 1TiB;"},
                                   std::pair{"predict_recheck:1", "from 4KiB to 1TiB;"},
                                   std::pair{"stats_flush:1ms", "from 100ms to 24h;"},
                                   std::pair{"owner_pid:9999999", "from 0 to 4194304;"},
                                   std::pair{"retian:1", "no such option (docs/options.md)"}})
    EXPECT_NE(parse(&options, text).find(cure), std::string::npos) << fault;
}

TEST(Options, APathHasKnownPercentLettersOnly) {
  Options options;
  EXPECT_EQ(parse(&options, "stats:/a/%e.%p.%t.100%%"), "");
  EXPECT_STREQ(options.stats.text, "/a/%e.%p.%t.100%%");
  for (const char* faulty : {"stats:/b/%q", "profile:/b%", "http:unix:/b.%d", "learn:/b/%E"})
    EXPECT_NE(parse(&options, faulty).find("%p is the PID"), std::string::npos) << faulty;
  EXPECT_STREQ(options.stats.text, "/a/%e.%p.%t.100%%");
}

TEST(Options, AWordThatTurnsSomethingOnIsNoPath) {
  Options options;
  EXPECT_EQ(parse(&options, "control:/run/c,stats:./on,profile:/auto"), "");
  EXPECT_STREQ(options.stats.text, "./on");
  for (const char* faulty : {"control:on", "control:OFF", "control:1", "stats:true", "profile:auto",
                             "model:none", "conf_file:no", "learn:auto"})
    EXPECT_NE(parse(&options, faulty).find("expected a path"), std::string::npos) << faulty;
  EXPECT_STREQ(options.control.text, "/run/c");
  EXPECT_EQ(parse(&options, "control:"), "");
  EXPECT_STREQ(options.control.text, "");
}

TEST(Options, LearnIsAPathOrAFlag) {
  Options options;
  for (const auto& [text, value] :
       {std::pair{"learn:On", "on"}, std::pair{"learn:1", "on"}, std::pair{"learn:true", "on"},
        std::pair{"learn:no", "off"}, std::pair{"learn:OFF", "off"},
        std::pair{"learn:./no", "./no"}, std::pair{"learn:/var/lib/x/", "/var/lib/x/"},
        std::pair{"learn:", ""}}) {
    EXPECT_EQ(parse(&options, text), "");
    EXPECT_STREQ(options.learn.text, value) << text;
  }
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

// The faults that a file gives, each in its line.
std::string parse_file(Options* options, const std::string& text, bool secure = false) {
  fault.clear();
  options->parse_file(text.data(), text.size(), "/f", secure,
                      [](const char* message) { fault += std::string(message) + "\n"; });
  return fault;
}

TEST(Options, AFileHasAnOptionALine) {
  Options options;
  EXPECT_EQ(parse_file(&options,
                       "# a server\n\n retain : 3MiB \r\n\tstats:/a,b#c\n#hugepages:off\n"
                       "on_misuse:report"),
            "");
  EXPECT_EQ(options.retain, 3u << 20);
  EXPECT_STREQ(options.stats.text, "/a,b#c");
  EXPECT_TRUE(options.hugepages);
  EXPECT_EQ(options.on_misuse, OnMisuse::report);
}

TEST(Options, AFaultInAFileIsNamedWithItsLine) {
  Options options;
  const std::string faults = parse_file(
      &options, std::string("retain:1MiB\nnonsense\nreta\0in:2MiB\nretain\nstats:/x\0y\n", 52) +
                    "conf_file:/other\nrelease_delay:9999h\n\x1b[2J:1\n" +
                    "stats:" + std::string(5000, 'x') + "\nhugepages:off\n");
  EXPECT_EQ(options.retain, 1u << 20);
  EXPECT_EQ(options.stats.text[0], 0);
  EXPECT_FALSE(options.hugepages);
  for (const char* expected :
       {"/f:2: \"nonsense\": expected key:value; ignored\n",
        "/f:3: \"reta\": the line contains a zero byte;", "/f:4: \"retain\": expected key:value;",
        "/f:5: \"stats:/x\": the line contains a zero byte",
        "/f:6: \"conf_file:/other\": a file of options cannot name another one;",
        "/f:7: \"release_delay:9999h\": out of range; from 0 to 1h;",
        "/f:8: \"?[2J:1\": no such option (docs/options.md);", "xxx\": too long;"})
    EXPECT_NE(faults.find(expected), std::string::npos) << expected << "\nnot in\n" << faults;
}

TEST(Options, ManyFaultsAreNotAllNamed) {
  Options options;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "x\n";
  const std::string faults = parse_file(&options, text + "retain:7\n");
  EXPECT_EQ(std::count(faults.begin(), faults.end(), '\n'), Options::kMostFaults + 1);
  EXPECT_NE(faults.find("/f:11: more errors follow"), std::string::npos);
  EXPECT_EQ(options.retain, 7u);
}

TEST(Options, AFileHasNoPathsUnderRaisedPrivileges) {
  Options options;
  EXPECT_NE(parse_file(&options, "stats:/a/b\nretain:1MiB\n", true), "");
  EXPECT_EQ(options.stats.text[0], 0);
  EXPECT_EQ(options.retain, 1u << 20);
}

TEST(Options, PathsAreRefusedUnderRaisedPrivileges) {
  Options options;
  EXPECT_NE(parse(&options, "stats:/a/b,retain:1MiB", true), "");
  EXPECT_EQ(options.stats.text[0], 0);
  EXPECT_EQ(options.retain, 1u << 20);
}

}  // namespace
}  // namespace llamalloc
