// SPDX-License-Identifier: Apache-2.0
#include "recorder/trace_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/held_lines.h"
#include "os/descriptor.h"
#include "os/path.h"

namespace llamalloc {
namespace {

constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY;

// Another user's link or pipe may lead anywhere. A file of his is written to where it was not laid
// in wait: in a folder that is not open to all.
bool may_lead_astray(const char* path, const struct stat& found) {
  return S_ISREG(found.st_mode) ? may_be_planted(path) : is_of_stranger(path);
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Nothing is cut off before it is known that what was opened is what was found.
int open_found(const char* path, const struct stat& found) {
  if (may_lead_astray(path, found)) return errno = EACCES, -1;
  const bool is_link = S_ISLNK(found.st_mode);
  const int fd = ::open(path, kFlags | (is_link ? O_CREAT : O_NOFOLLOW), 0644);
  struct stat opened;
  if (fd < 0) return -1;
  int error = ESTALE;
  if (fstat(fd, &opened) == 0 && (is_link ? !is_of_stranger(path) : is_same(opened, found)))
    error = S_ISREG(opened.st_mode) && ftruncate(fd, 0) != 0 ? errno : 0;
  if (error == 0) return fd;
  close(fd);
  return errno = error, -1;
}

int open_empty(const char* path) {
  struct stat found;
  if (lstat(path, &found) == 0) return open_found(path, found);
  const int fd = ::open(path, kFlags | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  const bool came_meanwhile = fd < 0 && errno == EEXIST && lstat(path, &found) == 0;
  return came_meanwhile ? open_found(path, found) : fd;
}

}  // namespace

bool TraceOutput::open(const char* path) {
  if (strlen(path) >= sizeof(path_)) return errno = ENAMETOOLONG, false;
  const int fd = open_empty(path);
  struct stat found;
  if (fd < 0 || fstat(fd, &found) != 0) return false;
  owner_.set();
  LockGuard guard(lock_);
  strcpy(path_, path);
  file_.hold(move_high(fd));
  is_regular_ = S_ISREG(found.st_mode);
  written_ = 0;
  failed_ = false;
  return true;
}

bool TraceOutput::reopen() {
  OpenFile again;
  if (!again.hold(move_high(::open(path_, kFlags)))) return false;
  if (!again.is_same(file_)) {
    again.close();
    return errno = ESTALE, false;
  }
  file_ = again;
  return true;
}

bool TraceOutput::write(const void* data, size_t bytes) {
  if (is_of_another()) return false;  // and somebody who is not here may hold the lock
  const HeldLines lines;
  LockGuard guard(lock_);
  if (failed_) return false;
  if (!file_.is_ours() && !reopen()) return fail(errno);
  if (is_regular_ && exceeds_file_size_limit(written_ + bytes)) return fail(EFBIG);
  const int error = append(static_cast<const char*>(data), bytes);
  if (error != 0) return fail(error);
  written_ += bytes;
  return true;
}

int TraceOutput::append(const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(file_.fd(), data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

// What was written of the last chunk is taken back, so that the file ends with a whole one.
bool TraceOutput::fail(int error) {
  failed_ = true;
  print_line("cannot write the trace %s: %s; recording stops, the program continues", path_,
             strerrordesc_np(error));
  if (file_.is_ours() && is_regular_ && ftruncate(file_.fd(), static_cast<off_t>(written_)) != 0)
    errno = 0;
  file_.close();
  return false;
}

// No other thread is there.
void TraceOutput::forget() NO_THREAD_SAFETY_ANALYSIS {
  lock_.reset();
  file_.close();
  path_[0] = 0;
  owner_.set();
}

}  // namespace llamalloc
