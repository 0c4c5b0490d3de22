// SPDX-License-Identifier: Apache-2.0
#include "os/c_library_names.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace llamalloc {
namespace {

void ours() {}

void* look_up(const char* name) {
  void* library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* found = library != nullptr ? dlsym(library, name) : nullptr;
  if (library != nullptr) dlclose(library);
  return found;
}

// Names that nobody here calls.
TEST(CLibraryNamesTest, LaterLookUpsFindOursAndOthersStay) {
  void* const neighbour = look_up("a64l");
  if (neighbour == nullptr || look_up("l64a") == nullptr) GTEST_SKIP() << "another C library";
  const ReplacedName names[] = {{"l64a", ours}, {"no_such_name", ours}};
  ASSERT_TRUE(replace_c_library_names(names, 2));
  EXPECT_EQ(look_up("l64a"), reinterpret_cast<void*>(ours));
  EXPECT_EQ(look_up("a64l"), neighbour);
  EXPECT_EQ(look_up("no_such_name"), nullptr);
  EXPECT_TRUE(replace_c_library_names(names, 2)) << "again";
}

TEST(CLibraryNamesTest, WhatItDoesNotDefineIsNotReplaced) {
  const ReplacedName names[] = {{"no_such_name", ours}};
  EXPECT_FALSE(replace_c_library_names(names, 1));
}

}  // namespace
}  // namespace llamalloc
