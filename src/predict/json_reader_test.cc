// SPDX-License-Identifier: Apache-2.0
#include "predict/json_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace llamalloc {
namespace {

// The decoded string, or "refused".
std::string decoded(const std::string& text, size_t room = 64) {
  char out[64];
  size_t length;
  JsonReader json(text.data(), text.size());
  if (!json.string(out, room, &length)) return "refused";
  return {out, length};
}

bool reads_integer(const std::string& text, uint64_t expected) {
  uint64_t value;
  JsonReader json(text.data(), text.size());
  return json.unsigned_integer(&value) && json.at_end() && value == expected;
}

TEST(JsonReader, DecodesStrings) {
  EXPECT_EQ(decoded(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(decoded(R"("\u0041\u00e9\u20AC\ud83d\ude00")"),
            "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(decoded(R"("x\u0000y")"), std::string("x\0y", 3));
}

TEST(JsonReader, RefusesBadStrings) {
  for (const char* text :
       {"", "a", "\"", "\"a", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",
        "\"\\ud83d\"", "\"\\ud83dxx\"", "\"\\ud83d\\u0041\"", "\"\\udc00\"", "\"\n\""})
    EXPECT_EQ(decoded(text), "refused") << text;
}

TEST(JsonReader, RefusesStringsThatDoNotFit) {
  EXPECT_EQ(decoded("\"abc\"", 4), "abc");
  EXPECT_EQ(decoded("\"abcd\"", 4), "refused");
  EXPECT_EQ(decoded("\"ab\\u20ac\"", 4), "refused");
  EXPECT_EQ(decoded("\"\"", 0), "refused");
}

TEST(JsonReader, SkipsStringsOfAnyLength) {
  const std::string text = '"' + std::string(100'000, 'x') + "\",";
  JsonReader json(text.data(), text.size());
  EXPECT_TRUE(json.string(nullptr, 0));
  EXPECT_TRUE(json.consume(','));
}

TEST(JsonReader, ReadsIntegersExactly) {
  EXPECT_TRUE(reads_integer("0", 0));
  EXPECT_TRUE(reads_integer(" 18446744073709551615 ", UINT64_MAX));
  for (const char* text : {"", "-1", "01", "1.0", "1e3", "18446744073709551616", "x"})
    EXPECT_FALSE(reads_integer(text, 1)) << text;
}

}  // namespace
}  // namespace llamalloc
