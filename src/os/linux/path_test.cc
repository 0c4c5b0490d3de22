// SPDX-License-Identifier: Apache-2.0
#include "os/path.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace llamalloc
