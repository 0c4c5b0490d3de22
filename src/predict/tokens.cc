// SPDX-License-Identifier: Apache-2.0
#include "predict/tokens.h"

#include <cstring>

#include "base/size_bucket.h"
#include "predict/frame_name_key.h"

namespace llamalloc {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool is_word_byte(char c) {
  return is_digit(c) || is_upper(c) || is_lower(c);
}

// Whether a word ends before text[i], 0 < i < length, both neighbours being letters or digits.
bool starts_word(const char* text, size_t i, size_t length) {
  if (!is_upper(text[i])) return false;
  if (!is_upper(text[i - 1])) return true;
  return i + 1 < length && is_lower(text[i + 1]);
}

}  // namespace

void TokenSequence::assign(const char* const* frames, int depth, size_t size) {
  count_ = 0;
  if (depth > kMaxTokenFrames) depth = kMaxTokenFrames;
  for (int i = 0; i < depth && !is_full(); ++i) {
    if (i > 0) add("@", 1, false);
    add_frame(frames[i]);
  }
  add_size(size);
}

void TokenSequence::add(const char* text, size_t length, bool is_word) {
  if (!is_full()) tokens_[count_++] = {text, static_cast<uint32_t>(length), is_word};
}

void TokenSequence::add_frame(const char* name) {
  const size_t length = name_length(name);
  if (length >= 1 && name[0] == '?')
    add_unnamed(name, length);
  else if (length >= 2 && name[0] == '_' && name[1] == 'Z')
    add_mangled(name, length);
  else
    add_words(name, length);
}

void TokenSequence::add_unnamed(const char* name, size_t length) {
  const size_t module = module_length(name, length);
  add(name, module, false);
  if (module < length) add(name, length, false);
}

void TokenSequence::add_mangled(const char* name, size_t length) {
  size_t i = 2;
  while (i < length && !is_full()) {
    if (!is_digit(name[i]) || name[i] == '0') {
      ++i;
      continue;
    }
    size_t number = 0;  // saturates above every possible length
    for (; i < length && is_digit(name[i]); ++i)
      if (number <= length) number = number * 10 + static_cast<size_t>(name[i] - '0');
    if (number > length - i) continue;
    add_words(name + i, number);
    i += number;
  }
}

void TokenSequence::add_words(const char* text, size_t length) {
  size_t i = 0;
  while (i < length && !is_full()) {
    if (!is_word_byte(text[i])) {
      ++i;
      continue;
    }
    const size_t start = i++;
    while (i < length && is_word_byte(text[i]) && !starts_word(text, i, length)) ++i;
    add(text + start, i - start, true);
  }
}

void TokenSequence::add_size(size_t size) {
  char* digits = size_text_ + sizeof(size_text_);
  uint64_t rest = size_bucket(size);
  do *--digits = static_cast<char>('0' + rest % 10);
  while ((rest /= 10) != 0);
  *--digits = '#';
  const auto length = static_cast<uint32_t>(size_text_ + sizeof(size_text_) - digits);
  tokens_[count_++] = {digits, length, false};
}

}  // namespace llamalloc
