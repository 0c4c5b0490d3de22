// SPDX-License-Identifier: Apache-2.0
#include "os/file_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/errno_keeper.h"
#include "os/descriptor.h"
#include "os/pages.h"

namespace llamalloc {

FileImage::Fault FileImage::open(const char* path, size_t limit) {
  const ErrnoKeeper keep;
  const int fd = off_standard(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  Fault fault = fd < 0 ? fail(errno) : read_whole(fd, limit);
  if (fd >= 0) ::close(fd);
  if (fault != Fault::none) close();
  return fault;
}

FileImage::Fault FileImage::read_whole(int fd, size_t limit) {
  struct stat status;
  if (fstat(fd, &status) != 0) return fail(errno);
  owner_ = status.st_uid;
  if (!S_ISREG(status.st_mode)) return Fault::not_regular;
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes > limit) return Fault::too_large;
  if (bytes == 0) return Fault::none;
  mapped_ = align_up(bytes, kSmallPage);
  data_ = static_cast<char*>(system_pages.map(mapped_, kSmallPage));
  if (data_ == nullptr) return Fault::out_of_memory;
  while (size_ < bytes) {
    const ssize_t n = ::read(fd, data_ + size_, bytes - size_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno);
    if (n == 0) break;  // became shorter meanwhile
    size_ += static_cast<size_t>(n);
  }
  return Fault::none;
}

void FileImage::close() {
  if (data_ != nullptr) system_pages.unmap(data_, mapped_);
  data_ = nullptr;
  size_ = mapped_ = 0;
}

FileImage::Fault FileImage::fail(int error) {
  error_ = error;
  return Fault::system;
}

bool FileImage::is_absent() const {
  return error_ == ENOENT;
}

const char* FileImage::reason() const {
  const char* text = strerrordesc_np(error_);
  return text != nullptr ? text : "unknown error";
}

}  // namespace llamalloc
