// SPDX-License-Identifier: Apache-2.0
#include "base/held_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/check.h"

namespace llamalloc {
namespace {

void write_now() {
  EXPECT_EQ(write(STDERR_FILENO, "now\n", 4), 4);
}

TEST(HeldLines, AreWrittenAtTheEnd) {
  testing::internal::CaptureStderr();
  {
    const HeldLines lines;
    print_line("first");
    {
      const HeldLines inner;
      print_line("second");
    }
    write_now();
  }
  print_line("third");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "now\nllamalloc: first\nllamalloc: second\nllamalloc: third\n");
}

TEST(HeldLines, WhatHasNoRoomIsLost) {
  testing::internal::CaptureStderr();
  {
    const HeldLines lines;
    for (int i = 0; i < 100; ++i) print_line("%s", std::string(400, 'x').c_str());
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_GE(text.size(), 4 * 412u);
  EXPECT_EQ(text.size() % 412, 0u) << "whole lines";
}

void fail_while_lines_are_held() {
  const HeldLines lines;
  print_line("before");
  CHECK_EQ(1, 2);
}

TEST(HeldLinesDeathTest, AnAbortIsTold) {
  EXPECT_DEATH(fail_while_lines_are_held(), "before\n.*check failed: 1 == 2");
}

}  // namespace
}  // namespace llamalloc
