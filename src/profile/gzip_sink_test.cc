// SPDX-License-Identifier: Apache-2.0
#include "profile/gzip_sink.h"

#include <gtest/gtest.h>

#include "base/crc32.h"
#include "profile/profile_test_util.h"

namespace llamalloc {
namespace {

TEST(Gzip, CrcOfTheStandardCheckString) {
  EXPECT_EQ(llamalloc::crc32(0, "123456789", 9), 0xCBF43926u);
  EXPECT_EQ(llamalloc::crc32(llamalloc::crc32(0, "1234", 4), "56789", 5), 0xCBF43926u);
}

// As `printf abc | gzip -n` but with a stored block.
TEST(Gzip, FramesAsRfc1952Says) {
  test::BufferSink out;
  GzipSink gzip(out);
  ASSERT_TRUE(gzip.write("abc", 3) && gzip.finish());
  const char expected[] =
      "\x1F\x8B\x08\0\0\0\0\0\0\x03"
      "\0\x03\0\xFC\xFF"
      "abc"
      "\x01\0\0\xFF\xFF"
      "\xC2\x41\x24\x35"
      "\x03\0\0\0";
  EXPECT_EQ(out.text, std::string(expected, sizeof(expected) - 1));
}

TEST(Gzip, CutsWhatIsLongerThanABlock) {
  std::string text(200'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3);
  test::BufferSink out;
  GzipSink gzip(out);
  ASSERT_TRUE(gzip.write(text.data(), text.size()) && gzip.write("end", 3) && gzip.finish());
  EXPECT_EQ(test::gunzip_stored(out.text), text + "end");
}

TEST(Gzip, EmptyStreamIsValid) {
  test::BufferSink out;
  GzipSink gzip(out);
  ASSERT_TRUE(gzip.finish());
  EXPECT_EQ(test::gunzip_stored(out.text), "");
}

TEST(Gzip, ReportsAFullSink) {
  for (size_t room = 0; room < 31; ++room) {
    test::BufferSink out(room);
    GzipSink gzip(out);
    gzip.write("abc", 3);
    EXPECT_FALSE(gzip.finish()) << room;
  }
}

}  // namespace
}  // namespace llamalloc
