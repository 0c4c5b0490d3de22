// SPDX-License-Identifier: Apache-2.0
#include "predict/json_reader.h"

namespace llamalloc {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Where decoded bytes go: a buffer, or nowhere.
class Output {
 public:
  Output(char* out, size_t room) : out_(out), room_(room) {}

  bool put(char c) {
    if (out_ != nullptr && length_ + 1 >= room_) return false;
    if (out_ != nullptr) out_[length_] = c;
    ++length_;
    return true;
  }
  bool put_code_point(uint32_t c) {
    if (c < 0x80) return put(static_cast<char>(c));
    if (c < 0x800) return put(static_cast<char>(0xC0 | c >> 6)) && put_continuation(c);
    if (c < 0x10000)
      return put(static_cast<char>(0xE0 | c >> 12)) && put_continuation(c >> 6) &&
             put_continuation(c);
    return put(static_cast<char>(0xF0 | c >> 18)) && put_continuation(c >> 12) &&
           put_continuation(c >> 6) && put_continuation(c);
  }
  bool finish(size_t* length) {
    if (out_ != nullptr && room_ == 0) return false;
    if (out_ != nullptr) out_[length_] = '\0';
    if (length != nullptr) *length = length_;
    return true;
  }

 private:
  bool put_continuation(uint32_t bits) { return put(static_cast<char>(0x80 | (bits & 0x3F))); }

  char* out_;
  size_t room_;
  size_t length_ = 0;
};

}  // namespace

void JsonReader::skip_space() {
  while (cursor_ < limit_ &&
         (*cursor_ == ' ' || *cursor_ == '\n' || *cursor_ == '\r' || *cursor_ == '\t'))
    ++cursor_;
}

bool JsonReader::consume(char c) {
  skip_space();
  if (cursor_ == limit_ || *cursor_ != c) return false;
  ++cursor_;
  return true;
}

bool JsonReader::at_end() {
  skip_space();
  return cursor_ == limit_;
}

bool JsonReader::string(char* out, size_t room, size_t* length) {
  if (!consume('"')) return false;
  Output output(out, room);
  while (cursor_ < limit_ && *cursor_ != '"') {
    const char c = *cursor_;
    uint32_t code_point;
    if (static_cast<unsigned char>(c) < 0x20) return false;
    if (c != '\\') {
      if (!output.put(c)) return false;
      ++cursor_;
    } else if (!escape(&code_point) || !output.put_code_point(code_point)) {
      return false;
    }
  }
  return consume('"') && output.finish(length);
}

bool JsonReader::escape(uint32_t* code_point) {
  static constexpr char kNames[] = "\"\\/bfnrt";
  static constexpr char kValues[] = "\"\\/\b\f\n\r\t";
  if (limit_ - cursor_ < 2) return false;
  const char name = cursor_[1];
  cursor_ += 2;
  for (int i = 0; i < 8; ++i)
    if (name == kNames[i]) return *code_point = static_cast<unsigned char>(kValues[i]), true;
  uint32_t high;
  if (name != 'u' || !hex4(&high)) return false;
  *code_point = high;
  if (high < 0xD800 || high > 0xDFFF) return true;
  uint32_t low;  // the other half of a surrogate pair must follow
  if (high > 0xDBFF || limit_ - cursor_ < 2 || cursor_[0] != '\\' || cursor_[1] != 'u')
    return false;
  cursor_ += 2;
  if (!hex4(&low) || low < 0xDC00 || low > 0xDFFF) return false;
  *code_point = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

bool JsonReader::hex4(uint32_t* out) {
  if (limit_ - cursor_ < 4) return false;
  *out = 0;
  for (int i = 0; i < 4; ++i, ++cursor_) {
    const char c = *cursor_;
    const char lower = static_cast<char>(c | 0x20);
    uint32_t digit;
    if (is_digit(c))
      digit = static_cast<uint32_t>(c - '0');
    else if (lower >= 'a' && lower <= 'f')
      digit = static_cast<uint32_t>(lower - 'a' + 10);
    else
      return false;
    *out = *out << 4 | digit;
  }
  return true;
}

bool JsonReader::unsigned_integer(uint64_t* out) {
  skip_space();
  const char* first = cursor_;
  uint64_t value = 0;
  for (; cursor_ < limit_ && is_digit(*cursor_); ++cursor_) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(*cursor_ - '0'), &value))
      return false;
  }
  *out = value;
  return cursor_ > first && (*first != '0' || cursor_ == first + 1);
}

bool JsonReader::number(char* out, size_t room) {
  skip_space();
  size_t length = 0;
  for (; cursor_ < limit_; ++cursor_) {
    const char c = *cursor_;
    if (!is_digit(c) && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E') break;
    if (length + 1 >= room) return false;
    out[length++] = c;
  }
  if (length > 0) out[length] = '\0';
  return length > 0;
}

}  // namespace llamalloc
