// SPDX-License-Identifier: Apache-2.0
#include "os/byte_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace llamalloc {
namespace {

bool is_special(const char* path) {
  struct stat found;
  return stat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

}  // namespace

bool FileSink::open(const char* path) {
  error_ = 0;
  used_ = 0;
  fd_ = -1;
  if (strlen(path) >= sizeof(path_)) return fail(ENAMETOOLONG);
  strcpy(path_, path);
  in_place_ = is_special(path);
  snprintf(temporary_, sizeof(temporary_), "%s.tmp.%d", path, getpid());
  fd_ = in_place_ ? ::open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
                  : ::open(temporary_, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd_ >= 0 || fail(errno);
}

bool FileSink::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0 && error_ == 0) {
    const size_t room = sizeof(buffer_) - used_;
    const size_t part = bytes < room ? bytes : room;
    memcpy(buffer_ + used_, from, part);
    used_ += part;
    from += part;
    bytes -= part;
    if (used_ == sizeof(buffer_)) flush();
  }
  return error_ == 0;
}

bool FileSink::flush() {
  size_t done = 0;
  while (done < used_) {
    const ssize_t n = ::write(fd_, buffer_ + done, used_ - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
  used_ = 0;
  return true;
}

bool FileSink::commit() {
  if (error_ != 0 || !flush()) return false;
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0 || (!in_place_ && rename(temporary_, path_) != 0)) {
    const int error = errno;
    if (!in_place_) unlink(temporary_);
    return fail(error);
  }
  return true;
}

void FileSink::abandon() {
  if (fd_ < 0) return;
  close(fd_);
  fd_ = -1;
  if (!in_place_) unlink(temporary_);
}

void FileSink::abandon_in_child() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool FileSink::fail(int error) {
  if (error_ == 0) error_ = error;
  abandon();
  return false;
}

}  // namespace llamalloc
