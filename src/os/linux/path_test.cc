// SPDX-License-Identifier: Apache-2.0
#include "os/path.h"

#include <gtest/gtest.h>

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace llamalloc {
namespace {

TEST(PathTest, TellsFoldersFromFiles) {
  EXPECT_TRUE(is_folder("/"));
  EXPECT_TRUE(is_folder("."));
  EXPECT_FALSE(is_folder("/proc/self/exe"));
  EXPECT_FALSE(is_folder("/no/such"));
  EXPECT_FALSE(is_folder(""));
}

TEST(PathTest, NamesTheProgram) {
  char name[64];
  program_name(name, sizeof(name));
  EXPECT_STREQ(name, "os_test");
  program_name(name, 3);
  EXPECT_STREQ(name, "os");
}

TEST(PathTest, FillsThePathOfAnOption) {
  char path[64];
  char expected[64];
  snprintf(expected, sizeof(expected), "/a/os_test.%d.%lld", getpid(),
           static_cast<long long>(program_start()));
  EXPECT_TRUE(path_of_option("/a/%e.%p.%t", path, sizeof(path)));
  EXPECT_STREQ(path, expected);
  EXPECT_NEAR(static_cast<double>(program_start()), static_cast<double>(time(nullptr)), 600);
  EXPECT_FALSE(path_of_option("/a/%e", path, 5));
}

}  // namespace
}  // namespace llamalloc
