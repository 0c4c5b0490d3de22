// SPDX-License-Identifier: Apache-2.0
#include "runtime/values.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "base/commands.h"
#include "runtime/background_state.h"
#include "runtime/control.h"
#include "runtime/output.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

TEST(Values, EveryOptionAndStatisticHasOne) {
  Options::Value value;
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) \
  EXPECT_TRUE(read_value(#name, &value)) << #name;
#include "contracts/options.def"
  // `samples` and `stats` are different names: an option must not hide a statistic.
  for (const StatRow& row : kStatRows) {
    EXPECT_FALSE(process.options.get(row.name, &value)) << row.name;
    EXPECT_TRUE(read_value(row.name, &value)) << row.name;
  }
  for (const char* name : kNamedValues) {
    EXPECT_FALSE(process.options.get(name, &value)) << name << " is an option, too";
    EXPECT_TRUE(read_value(name, &value)) << name;
    EXPECT_TRUE(value.text != nullptr || strcmp(name, "window") == 0) << name;
  }
  EXPECT_FALSE(read_value("nonsense", &value));
}

TEST(Values, OnlySomeOptionsChange) {
  Options::Value value;
  EXPECT_EQ(change_option("retain", "2MiB"), 0);
  EXPECT_TRUE(read_value("retain", &value));
  EXPECT_EQ(value.number, 2u << 20);
  EXPECT_EQ(change_option("on_misuse", "report"), 0);
  EXPECT_TRUE(read_value("on_misuse", &value));
  EXPECT_STREQ(value.text, "report");
  EXPECT_EQ(change_option("on_misuse", "sometimes"), EINVAL);
  EXPECT_EQ(change_option("model", "x"), ENOENT);
  EXPECT_EQ(change_option("hardened", "on"), ENOENT);
}

// Where only lookers want samples, few are taken, whatever else is changed.
TEST(Values, OtherOptionsLeaveTheSamplesAlone) {
  samples_for_lookers = true;
  EXPECT_EQ(act("sampling", "on"), 0);
  EXPECT_EQ(process.profiler.interval(), Options::kObserveInterval);
  EXPECT_EQ(change_option("sample_interval", "64KiB"), 0);
  EXPECT_EQ(process.profiler.interval(), 64u << 10);
  EXPECT_EQ(change_option("sample_interval", "0"), 0);
  EXPECT_EQ(change_option("retain", "4MiB"), 0);
  EXPECT_EQ(process.profiler.interval(), Options::kObserveInterval);
  EXPECT_EQ(act("sampling", "off"), 0);
  samples_for_lookers = false;
}

TEST(Values, ActsSayWhatIsWrong) {
  EXPECT_EQ(act("release", nullptr), 0);
  EXPECT_EQ(act("release", "all"), EINVAL);
  EXPECT_EQ(act("sampling", "perhaps"), EINVAL);
  EXPECT_EQ(act("sampling", nullptr), EINVAL);
  EXPECT_EQ(act("stats", nullptr), EINVAL);
  EXPECT_EQ(act("stats", "/dev/null/x"), EIO);
  EXPECT_EQ(act("nonsense", nullptr), ENOENT);
}

TEST(Values, CommandsAreToldTheReasonAndCallsHaveOneLine) {
  const auto told_by = [](auto what) {
    testing::internal::CaptureStderr();
    what();
    return testing::internal::GetCapturedStderr();
  };
  const char* why = nullptr;
  EXPECT_EQ(told_by([&] { EXPECT_EQ(act("heap", "/dev/null/x", &why), EIO); }), "");
  EXPECT_STREQ(why, "Not a directory");
  EXPECT_EQ(act("window", "/dev/null/x", &why), EIO);
  EXPECT_STREQ(why, "no window is open; open one first, with window open");
  EXPECT_EQ(act("window", "open", &why), 0);
  EXPECT_EQ(act("window", "/nowhere/x", &why), EIO);
  EXPECT_STREQ(why, "No such file or directory");
  EXPECT_EQ(act("window", "close", &why), 0);

  const auto call = [] { EXPECT_EQ(act("heap", "/dev/null/x"), EIO); };
  told_by(call);
  EXPECT_EQ(told_by(call), "") << "once";
  EXPECT_NE(told_by([] {
              LockGuard guard(background.work_lock);
              EXPECT_FALSE(write_stats("/dev/null/x"));
            }),
            "")
      << "a file that an option names";
}

// A caller may hold the loader's lock, which the worker may wait for while it has its own.
TEST(Values, ReadingOneWaitsForNoWork) {
  LockGuard guard(background.work_lock);
  Options::Value value;
  for (const char* name : {"window", "version", "sampling", "learning", "segregation", "allocated"})
    EXPECT_TRUE(read_value(name, &value)) << name;
}

TEST(Values, TagsAreOfTheThread) {
  EXPECT_STREQ(exchange_tag("request"), "");
  EXPECT_STREQ(exchange_tag("other work"), "request");
  Options::Value value;
  EXPECT_TRUE(read_value("tag", &value));
  EXPECT_STREQ(value.text, "other work");
  EXPECT_STREQ(exchange_tag(nullptr), "other work");
}

}  // namespace
}  // namespace llamalloc
