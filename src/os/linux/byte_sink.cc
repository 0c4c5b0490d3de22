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
  buffer_.clear();
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
  return error_ == 0 && buffer_.append(data, bytes, [this](const char* part, size_t length) {
    return deliver(part, length);
  });
}

bool FileSink::deliver(const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(n < 0 ? errno : EIO);
    data += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool FileSink::commit() {
  const auto rest = [this](const char* data, size_t bytes) { return deliver(data, bytes); };
  if (error_ != 0 || !buffer_.flush(rest)) return false;
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
