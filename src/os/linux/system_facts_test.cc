// SPDX-License-Identifier: Apache-2.0
#include "os/system_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace llamalloc {
namespace {

// A folder that stands for /sys/kernel/mm/transparent_hugepage.
class SystemFactsTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ + "/hugepages-2048kB"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void set(const std::string& all) { std::ofstream(folder_ + "/enabled") << all << "\n"; }
  void set_size(const std::string& one) {
    std::ofstream(folder_ + "/hugepages-2048kB/enabled") << one << "\n";
  }
  std::string state(HugePageSwitch process = HugePageSwitch::on) {
    const std::string of_size = folder_ + "/hugepages-2048kB/enabled",
                      of_all = folder_ + "/enabled";
    return huge_pages_in_force(transparent_huge_pages({of_size.c_str(), of_all.c_str()}), process);
  }

  const std::string folder_ = testing::TempDir() + "huge_pages_" + std::to_string(getpid());
};

TEST_F(SystemFactsTest, TheWordInBracketsIsInForce) {
  set("[always] madvise never");
  EXPECT_EQ(state(), "always");
  set("always [madvise] never");
  EXPECT_EQ(state(), "madvise");
  set("always madvise [never]");
  EXPECT_EQ(state(), "never");
}

TEST_F(SystemFactsTest, TheSettingOfTheSizeComesFirst) {
  set("[always] madvise never");
  set_size("always inherit madvise [never]");
  EXPECT_EQ(state(), "never");
  set_size("always [inherit] madvise never");
  EXPECT_EQ(state(), "always");
  set("always madvise [never]");
  EXPECT_EQ(state(), "never");
  set_size("always inherit [madvise] never");
  EXPECT_EQ(state(), "madvise");
}

TEST_F(SystemFactsTest, AProcessMaySwitchThemOffForItself) {
  set("[always] madvise never");
  EXPECT_EQ(state(HugePageSwitch::off), "disabled");
  EXPECT_EQ(state(HugePageSwitch::only_advised), "madvise");
  set("always madvise [never]");
  EXPECT_EQ(state(HugePageSwitch::off), "never");
}

TEST_F(SystemFactsTest, WhatCannotBeReadIsNotKnown) {
  EXPECT_EQ(state(), "unknown");
  set("");
  EXPECT_EQ(state(), "unknown");
  set("garbage");
  EXPECT_EQ(state(), "unknown");
  set("[always] madvise never");
  std::ofstream(folder_ + "/hugepages-2048kB/enabled", std::ios::trunc);
  EXPECT_EQ(state(), "unknown") << "it may say never";
}

TEST_F(SystemFactsTest, WhetherCommittedMemoryCountsIsWhatItWasWhereItCannotBeRead) {
  const std::string mode = folder_ + "/enabled";
  for (const bool before : {false, true}) {
    set("2");
    EXPECT_TRUE(counts_committed_memory(before, mode.c_str()));
    set("0");
    EXPECT_FALSE(counts_committed_memory(before, mode.c_str()));
    std::ofstream(mode, std::ios::trunc);
    EXPECT_EQ(counts_committed_memory(before, mode.c_str()), before);
    EXPECT_EQ(counts_committed_memory(before, "/nowhere"), before);
  }
}

TEST(SystemFacts, NeverAndDisabledGrantNone) {
  for (const char* setting : {"always", "madvise", "unknown"})
    EXPECT_TRUE(grants_huge_pages(setting));
  for (const char* setting : {"never", "disabled"}) EXPECT_FALSE(grants_huge_pages(setting));
}

}  // namespace
}  // namespace llamalloc
