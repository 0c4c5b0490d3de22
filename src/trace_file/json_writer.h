// SPDX-License-Identifier: Apache-2.0
// JSON as text: keys and values with the commas that belong between them.
//
//   JsonWriter json(JsonBytes::as_they_are);
//   json.open(nullptr, '{'); json.number("events", 7); json.close('}');   ->   {"events":7}
//
// A null key is an element of an array, or the outermost value.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>

namespace llamalloc {

// What becomes of bytes beyond ASCII in a text.
enum class JsonBytes {
  as_they_are,  // the texts are UTF-8
  by_number,  // the texts are bytes that may be none: each is shown as the character of its number
};

class JsonWriter {
 public:
  explicit JsonWriter(JsonBytes bytes) : bytes_(bytes) {}

  void open(const char* key, char bracket) {
    begin(key);
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void number(const char* key, uint64_t value) {
    begin(key);
    text_ += std::to_string(value);
  }
  void real(const char* key, double value) {
    char digits[32];
    snprintf(digits, sizeof(digits), "%.6g", value);
    begin(key);
    text_ += digits;
  }
  void flag(const char* key, bool value) {
    begin(key);
    text_ += value ? "true" : "false";
  }
  void string(const char* key, const std::string& value) {
    begin(key);
    quote(value);
  }
  std::string take() { return std::move(text_); }

 private:
  void begin(const char* key) {
    if (!first_) text_ += ',';
    first_ = false;
    if (key == nullptr) return;
    quote(key);
    text_ += ':';
  }
  void quote(const std::string& value) {
    text_ += '"';
    for (const char c : value) put(c);
    text_ += '"';
  }
  void put(char c) {
    const auto byte = static_cast<unsigned char>(c);
    const bool foreign = byte >= 0x7F && bytes_ == JsonBytes::by_number;
    char escaped[8];
    if (byte < 0x20 || foreign) {
      snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      text_ += escaped;
      return;
    }
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += c;
  }

  const JsonBytes bytes_;
  std::string text_;
  bool first_ = true;
};

}  // namespace llamalloc
