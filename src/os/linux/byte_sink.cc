// SPDX-License-Identifier: Apache-2.0
#include "os/byte_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/begins.h"
#include "base/errno_keeper.h"
#include "base/quiet_write.h"
#include "os/descriptor.h"
#include "os/path.h"

namespace llamalloc {
namespace {

// A name for one of our descriptors, such as /dev/stdout, whatever that leads to: a file that took
// the name's place would be the output of every other process, too.
bool is_of_descriptor(const char* path) {
  const auto names_one = [](const char* text) {
    return begins(text, "/dev/fd/") || (begins(text, "/proc/") && strstr(text, "/fd/") != nullptr);
  };
  char target[64] = {};
  return names_one(path) || (readlink(path, target, sizeof(target) - 1) > 0 &&
                             (names_one(target) || begins(target, "/dev/std")));
}

bool is_special(const char* path) {
  struct stat found;
  return (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) || is_of_descriptor(path);
}

// What close finds out (NFS, quotas), while the file stays open: a closed file's inode number could
// be that of the next file.
bool flush_by_close(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return copy < 0 || close(copy) == 0;
}

}  // namespace

int FileSink::why_not(const char* path) {
  const ErrnoKeeper keep;
  char folder[sizeof(path_)];
  struct stat found;
  if (strlen(path) >= sizeof(folder)) return ENAMETOOLONG;
  const bool exists = stat(path, &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) return EISDIR;
  if (exists && (!S_ISREG(found.st_mode) || is_of_descriptor(path)))
    return is_of_stranger(path) ? EACCES : access(path, W_OK) == 0 ? 0 : errno;
  folder_of(path, folder);
  if (stat(folder, &found) == 0 && !S_ISDIR(found.st_mode)) return ENOTDIR;
  return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

bool FileSink::open(const char* path, unsigned mode) {
  error_ = 0;
  delivered_ = 0;
  buffer_.clear();
  file_ = {};
  if (strlen(path) >= sizeof(path_)) return fail(ENAMETOOLONG);
  strcpy(path_, path);
  in_place_ = is_special(path);
  is_file_ = !in_place_;
  snprintf(temporary_, sizeof(temporary_), "%s.tmp.%d", path, getpid());
  if (in_place_ && is_of_stranger(path)) return fail(EACCES);
  const int fd = in_place_ ? open_in_place() : open_temporary(mode);
  return file_.hold(move_high(fd)) || fail(errno);
}

// What is opened may be another than what was found. A file is written to only behind a descriptor
// of ours, at its end.
int FileSink::open_in_place() {
  const int fd = ::open(path_, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return fd;
  struct stat opened;
  const bool known = fstat(fd, &opened) == 0 && !is_of_stranger(path_);
  is_file_ = known && S_ISREG(opened.st_mode);
  if (is_file_) delivered_ = static_cast<uint64_t>(opened.st_size);
  if (known && (!is_file_ || is_of_descriptor(path_))) return fd;
  close(fd);
  return errno = EACCES, -1;
}

// One of that name is of a process that died, or a trap; only ours and root's can be removed from
// folders that all may write to.
int FileSink::open_temporary(unsigned mode) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int fd = ::open(temporary_, kFlags, mode);
  if (fd >= 0 || errno != EEXIST || unlink(temporary_) != 0) return fd;
  return ::open(temporary_, kFlags, mode);
}

// Where the system refuses it, the file is root's.
void FileSink::give_to_owner() {
  unsigned user, group;
  const ErrnoKeeper keep;
  if (in_place_ || !owner_of_place(path_, &user, &group)) return;
  if (file_.is_ours() && fchown(file_.fd(), user, group) != 0) errno = 0;
}

bool FileSink::write(const void* data, size_t bytes) {
  return error_ == 0 && buffer_.append(data, bytes, [this](const char* part, size_t length) {
    return deliver(part, length);
  });
}

bool FileSink::deliver(const char* data, size_t bytes) {
  delivered_ += bytes;
  if (is_file_ && exceeds_file_size_limit(delivered_)) return fail(EFBIG);
  while (bytes > 0) {
    if (!file_.is_ours()) return fail(EBADF);
    const int fd = file_.fd();
    const ssize_t n = in_place_ ? write_quietly(fd, data, bytes) : ::write(fd, data, bytes);
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
  if (!in_place_ && !put_in_place()) return false;
  const int error = file_.close();
  return error == 0 || !in_place_ || fail(error);
}

bool FileSink::put_in_place() {
  if (!file_.is_ours()) return fail(EBADF);
  if (!flush_by_close(file_.fd())) return fail(errno);
  if (!file_.is_at(temporary_)) return fail(EEXIST);
  return rename(temporary_, path_) == 0 || fail(errno);
}

void FileSink::abandon() {
  if (!in_place_ && file_.is_at(temporary_)) unlink(temporary_);
  file_.close();
}

void FileSink::abandon_in_child() {
  file_.close();
}

const char* FileSink::reason() const {
  if (error_ == EEXIST) return "another process writes the same file";
  if (error_ == EBADF) return "the program has closed the file";
  const char* text = strerrordesc_np(error_);
  return text != nullptr ? text : "unknown error";
}

bool FileSink::fail(int error) {
  if (error_ == 0) error_ = error;
  abandon();
  return false;
}

}  // namespace llamalloc
