// SPDX-License-Identifier: Apache-2.0
#include "os/module_range.h"

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <unistd.h>

namespace llamalloc {
namespace {

int in_the_program() {
  return 1;
}

TEST(ModuleRange, KnowsTheCLibraryAndTheLoader) {
  find_system_libraries();
  EXPECT_TRUE(is_in_system_library(reinterpret_cast<uintptr_t>(&getpid)));
  EXPECT_TRUE(is_in_system_library(getauxval(AT_BASE) + 0x1000));
  EXPECT_FALSE(is_in_system_library(reinterpret_cast<uintptr_t>(&in_the_program)));
  EXPECT_FALSE(is_in_system_library(0));
  EXPECT_TRUE(may_be_in_system_library(reinterpret_cast<uintptr_t>(&getpid)));
  EXPECT_FALSE(may_be_in_system_library(reinterpret_cast<uintptr_t>(&in_the_program)));
}

}  // namespace
}  // namespace llamalloc
