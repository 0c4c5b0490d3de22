// SPDX-License-Identifier: Apache-2.0
// One error message in a buffer of the caller, always on one line whatever a hostile file put into
// it. The first message stays: it is the cause.
// Gate::describe makes its sentence of parts with it, too.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace llamalloc {

class ErrorText {
 public:
  ErrorText(char* text, size_t room) : text_(text), room_(room) {
    if (room_ > 0) text_[0] = '\0';
  }

  // Appends while no message is complete: what all messages begin with.
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list args;
    va_start(args, format);
    append(format, args);
    va_end(args);
  }
  // Always false, so that a check reads `return error.fail(...)`.
  __attribute__((format(printf, 2, 3))) bool fail(const char* format, ...) {
    if (failed_) return false;
    failed_ = true;
    va_list args;
    va_start(args, format);
    append(format, args);
    va_end(args);
    return false;
  }
  bool failed() const { return failed_; }

 private:
  // vsnprintf with integers and strings does not allocate in glibc.
  void append(const char* format, va_list args) {
    if (used_ >= room_) return;
    const int n = vsnprintf(text_ + used_, room_ - used_, format, args);
    if (n < 0) return;
    const size_t start = used_;
    used_ += static_cast<size_t>(n);
    for (size_t i = start; i < used_ && i < room_ && text_[i] != '\0'; ++i)
      if (static_cast<unsigned char>(text_[i]) < ' ' || text_[i] == 0x7F) text_[i] = '?';
  }

  char* text_;
  size_t room_;
  size_t used_ = 0;
  bool failed_ = false;
};

}  // namespace llamalloc
