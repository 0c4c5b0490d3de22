// SPDX-License-Identifier: Apache-2.0
#include "base/print_plain.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "base/errno_keeper.h"
#include "base/quiet_write.h"

namespace llamalloc {

void print_plain(const char* format, ...) {
  const ErrnoKeeper keep;
  char text[500];
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (n <= 0) return;
  const size_t length =
      static_cast<size_t>(n) < sizeof(text) ? static_cast<size_t>(n) : sizeof(text) - 1;
  write_quietly(STDERR_FILENO, text, length);  // as print_line
}

}  // namespace llamalloc
