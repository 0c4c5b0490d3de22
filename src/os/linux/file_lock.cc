// SPDX-License-Identifier: Apache-2.0
#include "os/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/errno_keeper.h"
#include "os/descriptor.h"

namespace llamalloc {

FileLock::Fault FileLock::open(const char* path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const ErrnoKeeper keep;
  fd_ = off_standard(::open(path, kFlags, 0600));
  if (fd_ < 0) {
    error_ = errno;
    return Fault::system;
  }
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return Fault::none;
  ::close(fd_);
  fd_ = -1;
  return Fault::busy;
}

// Unlocked by name: a copy of the descriptor in a child would keep it.
void FileLock::close() {
  if (fd_ < 0) return;
  const ErrnoKeeper keep;
  flock(fd_, LOCK_UN);
  ::close(fd_);
  fd_ = -1;
}

const char* FileLock::reason() const {
  const char* text = strerrordesc_np(error_);
  return text != nullptr ? text : "unknown error";
}

}  // namespace llamalloc
