// SPDX-License-Identifier: Apache-2.0
// Splits a calling context into tokens: contracts/stack_tokens.md. The Python version is
// python/llamalloc/formats/tokens.py.
//
//   frames ["_ZN3foo10HTTPServer3runEv", "main"], size 100
//   tokens  foo http server run  @  main  #112
//
// A token points into its frame name. Token::byte makes words lower-case and replaces unprintable
// bytes as they are read, so nothing is allocated.
// Invariant: 1 <= count() <= kMaxTokens, and the last token is the size token.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

inline constexpr int kMaxTokenFrames = 32;
inline constexpr int kMaxFrameTokens = 127;
inline constexpr int kMaxTokens = kMaxFrameTokens + 1;

struct Token {
  const char* text = nullptr;  // length bytes of a frame name, or a special token
  uint32_t length = 0;
  bool is_word = false;  // false: a whole name after `?`, or a special token

  // The i-th byte of the token as the vocabulary spells it.
  char byte(uint32_t i) const {
    const char c = text[i];
    if (is_word) return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return c > ' ' && c <= '~' ? c : '_';
  }
};

class TokenSequence {
 public:
  TokenSequence() = default;
  TokenSequence(const TokenSequence&) = delete;  // the size token points into the object
  TokenSequence& operator=(const TokenSequence&) = delete;

  // The tokens of a context; frames innermost first. The names must outlive their use here.
  void assign(const char* const* frames, int depth, size_t size);

  int count() const { return count_; }
  const Token& operator[](int i) const { return tokens_[i]; }
  const Token* begin() const { return tokens_; }
  const Token* end() const { return tokens_ + count_; }

 private:
  bool is_full() const { return count_ == kMaxFrameTokens; }
  void add(const char* text, size_t length, bool is_word);
  void add_frame(const char* name);
  void add_unnamed(const char* name, size_t length);
  void add_mangled(const char* name, size_t length);
  void add_words(const char* text, size_t length);
  void add_size(size_t size);

  int count_ = 0;
  Token tokens_[kMaxTokens];
  char size_text_[24];
};

}  // namespace llamalloc
