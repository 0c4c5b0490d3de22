// SPDX-License-Identifier: Apache-2.0
// Text for a function that the program passes, which takes 0-terminated pieces.
#pragma once

#include <cstdarg>
#include <cstdio>

namespace llamalloc {

struct TextWriter {
  using Write = void(void* data, const char* text);
  static constexpr size_t kLongest = 192;  // of one piece; what is longer is cut

  Write* write;
  void* data;

  [[gnu::format(printf, 2, 3)]] void operator()(const char* format, ...) const {
    char piece[kLongest];
    va_list values;
    va_start(values, format);
    vsnprintf(piece, sizeof(piece), format, values);
    va_end(values);
    write(data, piece);
  }
};

}  // namespace llamalloc
