// SPDX-License-Identifier: Apache-2.0
// A lock between processes, on a file that is made for it. Never waits.
//
// It is of the open file (flock(2)): it ends with the process, however that ends, and with close(),
// even if a child that was forked meanwhile still has the descriptor.
#pragma once

#include "os/descriptor.h"

namespace llamalloc {

class FileLock {
 public:
  // busy: another process has it, or another FileLock of this one. refused: it is there, but this
  // user may not open it.
  enum class Fault { none, busy, refused, system };

  // Makes the file if there is none, for the user only, as root for the user of what is or will be
  // at `guarded` (os/path.h); follows no link. Where the file system knows no locks nobody is kept
  // out.
  Fault open(const char* path, const char* guarded);
  void close();
  // What the system said, after Fault::system; in English, whatever the locale.
  const char* reason() const;

 private:
  OpenFile file_;
  int error_ = 0;
};

}  // namespace llamalloc
