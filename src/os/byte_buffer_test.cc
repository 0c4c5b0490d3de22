// SPDX-License-Identifier: Apache-2.0
#include "os/byte_buffer.h"

#include <gtest/gtest.h>

#include <string>

namespace llamalloc {
namespace {

TEST(ByteBuffer, PassesWholeBuffersOnAndTheRestWhenFlushed) {
  ByteBuffer<4> buffer;
  std::string passed;
  const auto deliver = [&](const char* data, size_t bytes) {
    passed += std::string(data, bytes) + "|";
    return true;
  };
  EXPECT_TRUE(buffer.append("abc", 3, deliver));
  EXPECT_EQ(passed, "");
  EXPECT_TRUE(buffer.append("defghij", 7, deliver));
  EXPECT_EQ(passed, "abcd|efgh|");
  EXPECT_TRUE(buffer.flush(deliver));
  EXPECT_TRUE(buffer.flush(deliver));
  EXPECT_EQ(passed, "abcd|efgh|ij|");
}

TEST(ByteBuffer, StopsAtAFault) {
  ByteBuffer<4> buffer;
  int calls = 0;
  const auto refuse = [&](const char*, size_t) { return ++calls, false; };
  EXPECT_FALSE(buffer.append("0123456789abcdef", 16, refuse));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace llamalloc
