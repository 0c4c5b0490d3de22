// SPDX-License-Identifier: Apache-2.0
// Some bytes of a file, from a place on, as pread. A program that closes all descriptors that it
// does not know may have a pipe of its own under this number by now: nothing is read from that, and
// it is not waited for. Nor is anything opened, read or closed where the program has installed a
// filter meanwhile: it may end the process. The descriptor stays then.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "os/pages.h"

namespace llamalloc {

inline bool refuses_filtered_call() {
  if (!system_pages.is_filtered()) return false;
  errno = EPERM;
  return true;
}

inline void close_read(int fd) {
  if (!refuses_filtered_call()) close(fd);
}

inline ssize_t read_at(int fd, char* out, size_t room, size_t from) {
  if (refuses_filtered_call()) return -1;
  ssize_t n;
  do n = pread(fd, out, room, static_cast<off_t>(from));
  while (n < 0 && errno == EINTR);
  return n;
}

}  // namespace llamalloc
