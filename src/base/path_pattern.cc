// SPDX-License-Identifier: Apache-2.0
#include "base/path_pattern.h"

#include <cstdio>
#include <cstring>

namespace llamalloc {
namespace {

bool is_word(char letter) {
  return letter == 'p' || letter == 'e' || letter == 't' || letter == '%';
}

// What the word is replaced by; its length as snprintf tells it.
int print_word(char letter, const PathWords& words, char* out, size_t room) {
  if (letter == 'p') return snprintf(out, room, "%d", words.pid);
  if (letter == 'e') return snprintf(out, room, "%s", words.program);
  if (letter == 't') return snprintf(out, room, "%lld", static_cast<long long>(words.started));
  return snprintf(out, room, "%%");
}

}  // namespace

bool is_path_pattern(const char* text, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    if (text[i] != '%') continue;
    if (++i == length || !is_word(text[i])) return false;
  }
  return true;
}

bool tells_processes_apart(const char* pattern) {
  for (const char* c = pattern; (c = strchr(c, '%')) != nullptr && c[1] != 0; c += 2)
    if (c[1] == 'p') return true;
  return false;
}

bool fill_path(const char* pattern, const PathWords& words, char* out, size_t room) {
  size_t length = 0;
  for (const char* c = pattern; *c != 0 && length < room; ++c) {
    if (*c == '%' && is_word(c[1]))
      length += static_cast<size_t>(print_word(*++c, words, out + length, room - length));
    else
      out[length++] = *c;
  }
  const bool fits = length < room;
  out[fits ? length : 0] = 0;
  return fits;
}

}  // namespace llamalloc
