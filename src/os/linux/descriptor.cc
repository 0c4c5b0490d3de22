// SPDX-License-Identifier: Apache-2.0
#include "os/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

#include "base/errno_keeper.h"

namespace llamalloc {
namespace {

// -1: the limit on descriptors allows no such number; then nothing changed.
int move_to(int fd, int lowest) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
  if (moved >= 0) close(fd);
  return moved;
}

}  // namespace

int off_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const ErrnoKeeper keep;
  const int moved = move_to(fd, STDERR_FILENO + 1);
  return moved < 0 ? fd : moved;
}

int move_high(int fd) {
  if (fd < 0) return fd;
  const ErrnoKeeper keep;
  for (const int lowest : {900, 200, 60}) {
    const int moved = move_to(fd, lowest);
    if (moved >= 0) return moved;
  }
  return off_standard(fd);
}

bool OpenFile::hold(int fd) {
  struct stat status;
  fd_ = fd;
  if (fd < 0) return false;
  if (fstat(fd, &status) != 0) status = {};
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

bool OpenFile::is_ours() const {
  struct stat status;
  return fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

bool OpenFile::is_at(const char* path) const {
  struct stat found;
  return fd_ >= 0 && lstat(path, &found) == 0 && found.st_dev == device_ && found.st_ino == inode_;
}

int OpenFile::close() {
  const bool ours = is_ours();
  const int fd = fd_;
  fd_ = -1;
  return !ours ? EBADF : ::close(fd) == 0 ? 0 : errno;
}

bool exceeds_file_size_limit(uint64_t length) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         length > limit.rlim_cur;
}

}  // namespace llamalloc
