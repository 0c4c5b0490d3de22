// SPDX-License-Identifier: Apache-2.0
// The file of a recording: chunks are appended whole, or the recording is over.
//
// The descriptor lies high, out of the way of programs that count theirs. One that closes what it
// does not know may take it from us, and get the number for a file of its own: so each write first
// looks whether the descriptor still is our file, and opens it again if it is not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/copy_mark.h"
#include "os/descriptor.h"
#include "os/lock.h"

namespace llamalloc {

class TraceOutput {
 public:
  static constexpr size_t kLongestPath = 1000;

  // The path is absolute. False, with errno, if it cannot be opened; what was there is replaced.
  // EACCES, too: another user (except root) put a link or pipe there, or a file into a folder that
  // all may write to.
  bool open(const char* path);
  bool is_open() {
    LockGuard guard(lock_);
    return path_[0] != 0;
  }
  // All of it or nothing; false after the first failure, which is told once on stderr, and in a
  // process that is_of_another().
  bool write(const void* data, size_t bytes);
  // In a forked child: the file is the parent's. From then on the child may open its own.
  void forget();
  // This is a child that has a copy of the file's descriptor, and ran no fork handlers.
  bool is_of_another() const { return owner_.is_in_copy(); }
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }  // for fork

 private:
  bool reopen() REQUIRES(lock_);
  int append(const char* data, size_t bytes) REQUIRES(lock_);
  bool fail(int error) REQUIRES(lock_);

  CopyMark owner_;  // set in the process that writes
  Lock lock_{LockRank::trace_output};
  OpenFile file_ GUARDED_BY(lock_);
  uint64_t written_ GUARDED_BY(lock_) = 0;  // bytes; the file's length, if it is a regular file
  bool is_regular_ GUARDED_BY(lock_) = false;
  bool failed_ GUARDED_BY(lock_) = false;
  char path_[kLongestPath + 24] GUARDED_BY(lock_) = {};
};

}  // namespace llamalloc
