// SPDX-License-Identifier: Apache-2.0
#include "trace/format.h"

#include <gtest/gtest.h>

namespace llamalloc::trace {
namespace {

TEST(Varint, ComesBack) {
  for (unsigned shift = 0; shift < 64; ++shift)
    for (const uint64_t value : {uint64_t{1} << shift, (uint64_t{1} << shift) - 1}) {
      uint8_t bytes[kMaxVarint];
      const uint8_t* end = put_varint(bytes, value);
      PayloadReader in(bytes, static_cast<size_t>(end - bytes));
      EXPECT_EQ(in.varint(), value);
      EXPECT_TRUE(in.ok() && in.at_end());
    }
}

TEST(Varint, EndsWithThePayload) {
  const uint8_t open[] = {0x80, 0x80};
  PayloadReader in(open, sizeof(open));
  EXPECT_EQ(in.varint(), 0u);
  EXPECT_FALSE(in.ok());
}

TEST(Varint, IsNeverLongerThanTen) {
  uint8_t endless[16];
  memset(endless, 0xFF, sizeof(endless));
  PayloadReader in(endless, sizeof(endless));
  in.varint();
  EXPECT_FALSE(in.ok());
}

TEST(Zigzag, IsSmallBothWays) {
  EXPECT_EQ(zigzag(0), 0u);
  EXPECT_EQ(zigzag(static_cast<uint64_t>(-1)), 1u);
  EXPECT_EQ(zigzag(1), 2u);
  for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{12345}})
    EXPECT_EQ(unzigzag(zigzag(value)), value);
}

TEST(Checksum, SeesEveryBit) {
  char bytes[21] = "twenty bytes of text";
  Checksum before;
  before.add(bytes, 20);
  for (int bit = 0; bit < 160; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    Checksum after;
    after.add(bytes, 20);
    EXPECT_NE(after.value(), before.value()) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

}  // namespace
}  // namespace llamalloc::trace
