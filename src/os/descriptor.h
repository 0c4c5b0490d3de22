// SPDX-License-Identifier: Apache-2.0
// Our file descriptors, kept away from numbers that the program uses.
#pragma once

#include <cstdint>

namespace llamalloc {

// Moves the descriptor to another number if it is 0, 1 or 2. Otherwise a program that closed one of
// those and prints would write into our file. -1 stays -1; errno is unchanged.
int off_standard(int fd);
// The same for a descriptor that stays open: moves it to a high number, so that the program's own
// numbers stay low (select).
int move_high(int fd);
// A file of ours, as long as the program leaves its descriptor alone: it may close that, and get
// the number for a file of its own.
class OpenFile {
 public:
  // False: fd is -1.
  bool hold(int fd);
  int fd() const { return fd_; }  // -1: none
  // The program has it.
  void forget() { fd_ = -1; }
  bool is_ours() const;
  // Whether the path names the file.
  bool is_at(const char* path) const;
  bool is_same(const OpenFile& other) const {
    return device_ == other.device_ && inode_ == other.inode_;
  }
  // What close says; an errno: EBADF, the program has closed it.
  int close();

 private:
  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};
// Whether a file of that length exceeds the process's limit: the write would kill it by a signal.
bool exceeds_file_size_limit(uint64_t length);

}  // namespace llamalloc
