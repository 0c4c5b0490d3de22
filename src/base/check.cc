// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/errno_keeper.h"
#include "base/held_lines.h"

namespace llamalloc {

// vsnprintf with integer, string and plain floating conversions does not allocate in glibc.
void print_line(const char* format, ...) {
  const ErrnoKeeper keep;
  char text[512] = "llamalloc: ";
  constexpr int kPrefix = 11;
  constexpr int kRoom = 500 - kPrefix;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text + kPrefix, kRoom, format, args);
  va_end(args);
  if (n < 0) n = 0;
  if (n >= kRoom) n = kRoom - 1;
  text[kPrefix + n] = '\n';
  // Not write(2): a thread that is cancelled would end here, with our locks held, and a process
  // whose stderr nobody reads any more would end by a signal.
  HeldLines::say(text, static_cast<size_t>(kPrefix + n + 1));
}

void check_failed(const char* file, int line, const char* text) {
  HeldLines::let_go();
  print_line("%s:%d: check failed: %s", file, line, text);
  abort();
}

void check_failed(const char* file, int line, const char* text, uint64_t left, uint64_t right) {
  HeldLines::let_go();
  print_line("%s:%d: check failed: %s (%llu against %llu)", file, line, text,
             static_cast<unsigned long long>(left), static_cast<unsigned long long>(right));
  abort();
}

}  // namespace llamalloc
