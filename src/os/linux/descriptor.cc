// SPDX-License-Identifier: Apache-2.0
#include "os/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

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

bool exceeds_file_size_limit(uint64_t length) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         length > limit.rlim_cur;
}

}  // namespace llamalloc
