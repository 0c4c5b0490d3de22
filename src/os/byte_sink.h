// SPDX-License-Identifier: Apache-2.0
// An output for bytes: a file (buffered, replaced atomically), or a buffer in a test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/byte_buffer.h"
#include "os/descriptor.h"

namespace llamalloc {

class ByteSink {
 public:
  // False once anything failed; later calls then do nothing.
  virtual bool write(const void* data, size_t bytes) = 0;

 protected:
  ~ByteSink() = default;
};

// Writes PATH.tmp.PID, then renames it to PATH: a reader sees the old file or the whole new one.
// A device or pipe is written to directly, without waiting for a reader: a file renamed over
// /dev/null would replace it for the whole system. So is what /dev/stdout and the like lead to; of
// a file, the end. A file or link that another user (except root) created at the path is neither
// written to nor followed. A program may close all descriptors that it does not know, and open
// files of its own: a descriptor that is not our file's any more is left alone. No allocation: the
// buffer is part of the object (use static or arena storage).
class FileSink final : public ByteSink {
 public:
  // Why a file cannot be written at this path now: an errno; 0: it can. Writes nothing.
  static int why_not(const char* path);
  // mode: the rights of the new file, before the process's umask.
  bool open(const char* path, unsigned mode = 0644);
  // As root: the new file belongs to whom the place does (os/path.h). After open().
  void give_to_owner();
  bool write(const void* data, size_t bytes) override;
  // Flushes and renames, without fsync. On any failure removes the temporary file and returns
  // false. EEXIST: another process of this PID (in another container, say) writes the same file and
  // has replaced our temporary one, which is then left to it.
  bool commit();
  void abandon();
  // In a forked child: the parent continues to write the file.
  void abandon_in_child();
  int error() const { return error_; }  // errno of the first failure
  const char* reason() const;           // the same in English, whatever the locale

 private:
  int open_temporary(unsigned mode);
  int open_in_place();
  bool deliver(const char* data, size_t bytes);
  bool put_in_place();
  bool fail(int error);

  OpenFile file_;
  bool in_place_ = false;
  bool is_file_ = true;  // it has a size, and a limit of that
  int error_ = 0;
  uint64_t delivered_ = 0;
  char path_[4096];
  char temporary_[4096 + 32];
  ByteBuffer<16 * 1024> buffer_;
};

}  // namespace llamalloc
