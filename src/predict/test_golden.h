// SPDX-License-Identifier: Apache-2.0
// For tests: walks the JSON of contracts/golden/, where members stand in a fixed order. Every
// surprise is a test failure, after which nothing more is read.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "predict/json_reader.h"

namespace llamalloc {

inline std::string golden_path(const char* name) {
  return std::string(LLAMALLOC_SOURCE_DIR "/contracts/golden/") + name;
}

class GoldenReader {
 public:
  explicit GoldenReader(const char* name)
      : text_(content(golden_path(name))), json_(text_.data(), text_.size()) {}
  GoldenReader(const GoldenReader&) = delete;

  void expect(char c) { check(json_.consume(c), c); }
  void key(const char* name) {
    EXPECT_EQ(string(), name);
    expect(':');
  }
  // Whether a list goes on; `first` is for the caller to keep.
  bool next(bool* first) {
    if (failed_ || json_.consume(']')) return false;
    if (!*first) expect(',');
    *first = false;
    return !failed_;
  }
  std::string string() {
    std::string out(65536, '\0');
    size_t length = 0;
    check(json_.string(out.data(), out.size(), &length), '"');
    out.resize(length);
    return out;
  }
  uint64_t integer() {
    uint64_t value = 0;
    check(json_.unsigned_integer(&value), '0');
    return value;
  }
  double number() {
    char text[64] = "";
    check(json_.number(text, sizeof(text)), '.');
    return std::stod(std::string(text[0] != '\0' ? text : "0"));
  }
  // A whole list, each element by `read`.
  template <typename Read>
  auto list(const Read& read) {
    std::vector<decltype(read())> values;
    expect('[');
    for (bool first = true; next(&first);) values.push_back(read());
    return values;
  }
  std::vector<std::string> strings() {
    return list([this] { return string(); });
  }

 private:
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file.is_open()) << path;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void check(bool good, char wanted) {
    EXPECT_TRUE(good || failed_) << wanted << " expected at byte " << json_.position();
    failed_ |= !good;
  }

  std::string text_;
  JsonReader json_;
  bool failed_ = false;
};

}  // namespace llamalloc
