// SPDX-License-Identifier: Apache-2.0
#include "telemetry/text.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace llamalloc {

void Text::add(const char* format, ...) {
  const size_t room = kRoom - used_;
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(data_ + used_, room, format, arguments);
  va_end(arguments);
  if (n > 0) used_ += static_cast<size_t>(n) < room ? static_cast<size_t>(n) : room - 1;
}

void Text::append(const char* bytes, size_t length) {
  const size_t room = kRoom - used_;
  memcpy(data_ + used_, bytes, length < room ? length : room);
  used_ += length < room ? length : room;
}

void Text::add_json_string(const char* text) {
  add("\"");
  for (const char* c = text; *c; ++c) {
    if (*c == '"' || *c == '\\')
      add("\\%c", *c);
    else
      add("%c", *c >= 32 && *c < 127 ? *c : '?');
  }
  add("\"");
}

}  // namespace llamalloc
