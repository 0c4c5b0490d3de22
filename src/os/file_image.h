// SPDX-License-Identifier: Apache-2.0
// A whole regular file, read into memory of its own.
//
// It is a copy and not a mapping of the file. So if the file is truncated or overwritten later, the
// process is not killed (SIGBUS) and validated data does not change.
#pragma once

#include <cstddef>

namespace llamalloc {

class FileImage {
 public:
  enum class Fault { none, system, not_regular, too_large, out_of_memory };

  // Reads the file, at most `limit` bytes of it; after a fault nothing is held.
  // Never blocks on a pipe or device. errno stays as it was.
  Fault open(const char* path, size_t limit);
  // Gives the memory back.
  void close();

  const char* data() const { return data_; }  // aligned to a page; null for an empty file
  size_t size() const { return size_; }
  unsigned owner() const { return owner_; }  // the user whose file it is; after open()
  // The system's error text after Fault::system; in English, whatever the locale.
  const char* reason() const;
  // After Fault::system: there is no such file, or no such folder.
  bool is_absent() const;

 private:
  Fault read_whole(int fd, size_t limit);
  Fault fail(int error);

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
  unsigned owner_ = 0;
  int error_ = 0;
};

}  // namespace llamalloc
