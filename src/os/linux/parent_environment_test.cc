// SPDX-License-Identifier: Apache-2.0
#include "os/parent_environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace llamalloc {
namespace {

bool has(const std::string& block, const char* name, const char* value, size_t piece) {
  EnvironmentScan scan(name, value);
  for (size_t at = 0; at < block.size(); at += piece)
    scan.add(block.data() + at, std::min(piece, block.size() - at));
  return scan.found();
}

TEST(EnvironmentScan, FindsAVariableWhateverThePieces) {
  const std::string block("A=1\0BA=2\0B=\0\0C=x=y\0", 20);
  for (size_t piece = 1; piece <= block.size(); ++piece) {
    EXPECT_TRUE(has(block, "A", "1", piece));
    EXPECT_TRUE(has(block, "B", "", piece));
    EXPECT_TRUE(has(block, "C", "x=y", piece));
    EXPECT_FALSE(has(block, "A", "2", piece));
    EXPECT_FALSE(has(block, "A", "", piece));
    EXPECT_FALSE(has(block, "C", "x", piece));
    EXPECT_FALSE(has(block, "BA", "", piece));
    EXPECT_FALSE(has(block, "D", "", piece));
  }
}

TEST(EnvironmentScan, NeverReadsPastItsOwnTexts) {
  EXPECT_FALSE(has(std::string("AAAAAAAAAAAAAAAAAAAA\0", 21), "A", "1", 7));
  EXPECT_FALSE(has(std::string("A=1aaaaaaaaaaaaaaaa\0", 20), "A", "1", 7));
}

TEST(ParentEnvironment, IsReadInAChild) {
  const pid_t pid = fork();
  if (pid == 0) {
    const char* path = getenv("PATH");
    const bool right = path != nullptr && parent_has_variable("PATH", path) &&
                       !parent_has_variable("PATH", "elsewhere") && parent_runs_this_program();
    _exit(right ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace llamalloc
