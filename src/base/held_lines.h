// SPDX-License-Identifier: Apache-2.0
// What a thread says while it holds a lock that others wait for: nobody may read stderr, and a full
// pipe would then stop all of them. Make it before the lock is taken; it writes when it ends. The
// innermost one keeps the lines.
#pragma once

#include <cstddef>

namespace llamalloc {

class HeldLines {
 public:
  HeldLines();
  ~HeldLines();
  HeldLines(const HeldLines&) = delete;
  HeldLines& operator=(const HeldLines&) = delete;

  // Keeps a line of the calling thread, or writes it where that keeps none. What has no room is
  // lost.
  static void say(const char* text, size_t length);
  // The process is about to abort: writes what the calling thread keeps, and keeps no more.
  static void let_go();

 private:
  void write();

  HeldLines* const outer_;
  size_t used_ = 0;
  char text_[2048];
};

}  // namespace llamalloc
