// SPDX-License-Identifier: Apache-2.0
#include "trace_file/json_writer.h"

#include <gtest/gtest.h>

namespace llamalloc {
namespace {

TEST(JsonWriter, PutsCommasBetweenValues) {
  JsonWriter json(JsonBytes::as_they_are);
  json.open(nullptr, '{');
  json.number("n", 18446744073709551615u);
  json.open("a", '[');
  json.flag(nullptr, true);
  json.open(nullptr, '{');
  json.close('}');
  json.close(']');
  json.open("empty", '[');
  json.close(']');
  json.real("r", 0.25);
  json.close('}');
  EXPECT_EQ(json.take(), R"({"n":18446744073709551615,"a":[true,{}],"empty":[],"r":0.25})");
}

std::string quoted(JsonBytes bytes, const std::string& text) {
  JsonWriter json(bytes);
  json.string(nullptr, text);
  return json.take();
}

TEST(JsonWriter, EscapesWhatATextMayNotHold) {
  for (const JsonBytes bytes : {JsonBytes::as_they_are, JsonBytes::by_number})
    EXPECT_EQ(quoted(bytes, std::string("a\"b\\c\n\x1b\0d", 9)), R"("a\"b\\c\u000a\u001b\u0000d")");
}

TEST(JsonWriter, BytesBeyondAsciiStayOrAreShownByNumber) {
  EXPECT_EQ(quoted(JsonBytes::as_they_are, "\xc3\xa9\x7f"), "\"\xc3\xa9\x7f\"");
  EXPECT_EQ(quoted(JsonBytes::by_number, "\xc3\xa9\x7f"), R"("\u00c3\u00a9\u007f")");
}

}  // namespace
}  // namespace llamalloc
