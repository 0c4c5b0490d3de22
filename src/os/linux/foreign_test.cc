// SPDX-License-Identifier: Apache-2.0
#include "os/foreign.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace llamalloc {
namespace {

TEST(ForeignTest, KnowsWhatIsNotOfTheCLibrarys) {
  prepare_foreign();
  int on_stack[8] = {};
  static char of_the_program[64];
  EXPECT_FALSE(is_foreign(on_stack));
  EXPECT_FALSE(is_foreign(of_the_program));
  EXPECT_FALSE(is_foreign(reinterpret_cast<void*>(uintptr_t{16}))) << "nothing is mapped there";
}

TEST(ForeignTest, KnowsAMappingOfItsOwnOnlyByItsHeader) {
  prepare_foreign();
  void* space = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(space, MAP_FAILED);
  char* object = static_cast<char*>(space) + 16;
  EXPECT_FALSE(is_foreign(object)) << "no size before it";
  static_cast<size_t*>(space)[1] = 8192 | 2;
  EXPECT_TRUE(is_foreign(object));
  EXPECT_FALSE(is_foreign(object + 8));
  EXPECT_FALSE(is_foreign(object + 16));
  mprotect(space, 8192, PROT_NONE);
  EXPECT_FALSE(is_foreign(object)) << "it cannot be read";
  munmap(space, 8192);
}

}  // namespace
}  // namespace llamalloc
