// SPDX-License-Identifier: Apache-2.0
#include "os/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/errno_keeper.h"
#include "os/descriptor.h"
#include "os/path.h"

namespace llamalloc {

namespace {

// Only a new file is given away: one that is there may be a link to any other.
int open_or_make(const char* path, const char* guarded) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  unsigned user, group;
  const int fd = ::open(path, kFlags | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return errno == EEXIST ? ::open(path, kFlags) : fd;
  if (owner_of_place(guarded, &user, &group) && fchown(fd, user, group) != 0) errno = 0;
  return fd;
}

}  // namespace

FileLock::Fault FileLock::open(const char* path, const char* guarded) {
  const ErrnoKeeper keep;
  if (!file_.hold(move_high(open_or_make(path, guarded)))) {
    error_ = errno;
    struct stat found;
    return error_ == EACCES && lstat(path, &found) == 0 ? Fault::refused : Fault::system;
  }
  if (flock(file_.fd(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return Fault::none;
  file_.close();
  return Fault::busy;
}

// Unlocked by name: a copy of the descriptor in a child would keep it.
void FileLock::close() {
  const ErrnoKeeper keep;
  if (file_.is_ours()) flock(file_.fd(), LOCK_UN);
  file_.close();
}

const char* FileLock::reason() const {
  const char* text = strerrordesc_np(error_);
  return text != nullptr ? text : "unknown error";
}

}  // namespace llamalloc
