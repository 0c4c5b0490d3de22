// SPDX-License-Identifier: Apache-2.0
#include "base/held_lines.h"

#include <unistd.h>

#include <cstring>

#include "base/quiet_write.h"

namespace llamalloc {
namespace {

constinit thread_local HeldLines* held __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

HeldLines::HeldLines() : outer_(held) {
  held = this;
}

HeldLines::~HeldLines() {
  held = outer_;
  if (used_ != 0 && held != nullptr)
    say(text_, used_);
  else
    write();
}

void HeldLines::write() {
  if (used_ != 0) write_quietly(STDERR_FILENO, text_, used_);
  used_ = 0;
}

void HeldLines::let_go() {
  HeldLines* const lines = held;
  held = nullptr;
  if (lines != nullptr) lines->write();
}

void HeldLines::say(const char* text, size_t length) {
  if (held == nullptr) {
    write_quietly(STDERR_FILENO, text, length);
  } else if (length <= sizeof(text_) - held->used_) {
    memcpy(held->text_ + held->used_, text, length);
    held->used_ += length;
  }
}

}  // namespace llamalloc
