// SPDX-License-Identifier: Apache-2.0
#include "os/module_range.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <stdlib.h>

#include <string>

namespace llamalloc {
namespace {

int some_function() {
  return 1;
}

// The loader frees memory while it holds locks that starting a thread takes.
TEST(ModuleRange, LibcAndTheLoaderAreSystemLibraries) {
  find_system_libraries();
  EXPECT_TRUE(is_in_system_library(reinterpret_cast<uintptr_t>(&abort)));
  EXPECT_FALSE(is_in_system_library(reinterpret_cast<uintptr_t>(&some_function)));
  const char* interpreter = nullptr;
  uintptr_t code = 0;
  for (const link_map* m = _r_debug.r_map; m != nullptr; m = m->l_next)
    if (std::string(m->l_name).find("/ld-linux") != std::string::npos) {
      interpreter = m->l_name;
      code = m->l_addr + 0x2000;
    }
  ASSERT_NE(interpreter, nullptr);
  EXPECT_TRUE(is_in_system_library(code)) << interpreter;
}

}  // namespace
}  // namespace llamalloc
