// SPDX-License-Identifier: Apache-2.0
#include "os/path.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace llamalloc {
namespace {

TEST(PathTest, TellsFoldersFromFiles) {
  EXPECT_TRUE(is_folder("/"));
  EXPECT_TRUE(is_folder("."));
  EXPECT_FALSE(is_folder("/proc/self/exe"));
  EXPECT_FALSE(is_folder("/no/such"));
  EXPECT_FALSE(is_folder(""));
}

TEST(PathTest, TellsOneFileFromTwo) {
  EXPECT_TRUE(is_same_file("/proc/self/exe", "/proc/self/exe"));
  EXPECT_TRUE(is_same_file("/.", "/"));
  EXPECT_FALSE(is_same_file("/proc/self/exe", "/"));
  EXPECT_FALSE(is_same_file("/no/such", "/no/such"));
}

TEST(PathTest, SomebodyElsesFileMayBePlantedWhereAllMayWrite) {
  char folder[] = "/tmp/path_test_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/x", link = std::string(folder) + "/y";
  fclose(fopen(file.c_str(), "w"));
  ASSERT_EQ(symlink("/etc/passwd", link.c_str()), 0);
  ASSERT_EQ(chmod(folder, 01777), 0);
  EXPECT_FALSE(may_be_planted(file.c_str())) << "ours";
  EXPECT_FALSE(may_be_planted((file + "z").c_str())) << "none";
  const uid_t stranger = 12345;
  if (chown(file.c_str(), stranger, 0) == 0 && lchown(link.c_str(), stranger, 0) == 0) {
    EXPECT_TRUE(may_be_planted(file.c_str()));
    EXPECT_TRUE(may_be_planted(link.c_str()));
    ASSERT_EQ(chmod(folder, 0755), 0);
    EXPECT_FALSE(may_be_planted(file.c_str())) << "the folder's owner put it there";
  }
  unlink(file.c_str());
  unlink(link.c_str());
  rmdir(folder);
}

TEST(PathTest, NamesTheProgram) {
  char name[64];
  program_name(name, sizeof(name));
  EXPECT_STREQ(name, "os_test");
  program_name(name, 3);
  EXPECT_STREQ(name, "os");
}

// The name may be a link: a process under it shows it (tests/servers/report_test.py).
TEST(PathTest, KnowsTheFileAsItWasCalled) {
  char called[4096];
  char path[4096];
  ASSERT_TRUE(called_path(called, sizeof(called)));
  EXPECT_EQ(called[0], '/');
  EXPECT_STREQ(strrchr(called, '/'), "/os_test");
  EXPECT_NE(realpath(called, path), nullptr);
  program_path(called, sizeof(called));
  EXPECT_STREQ(path, called);
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

TEST(PathTest, AnchorsARelativePathInTheFolderOfTheStart) {
  char start[4096];
  char path[4200];
  ASSERT_NE(getcwd(start, sizeof(start)), nullptr);
  for (const char* const now : {static_cast<const char*>(start), "/"}) {
    ASSERT_EQ(chdir(now), 0);
    snprintf(path, sizeof(path), "a/b");
    anchor_path(path, sizeof(path));
    EXPECT_EQ(std::string(path), std::string(start) + "/a/b");
  }
  EXPECT_EQ(chdir(start), 0);
  snprintf(path, sizeof(path), "/a");
  anchor_path(path, sizeof(path));
  EXPECT_STREQ(path, "/a");
  snprintf(path, sizeof(path), "a");
  anchor_path(path, strlen(start) + 2);
  EXPECT_STREQ(path, "a") << "no room";
  anchor_path(path, strlen(start) + 3);
  EXPECT_EQ(std::string(path), std::string(start) + "/a");
}

}  // namespace
}  // namespace llamalloc
