// SPDX-License-Identifier: Apache-2.0
#include "os/parent_environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/errno_keeper.h"
#include "os/descriptor.h"
#include "os/path.h"

namespace llamalloc {

char EnvironmentScan::expected() const {
  const size_t name = strlen(name_);
  if (matched_ < name) return name_[matched_];
  return matched_ == name ? '=' : value_[matched_ - name - 1];
}

void EnvironmentScan::add(const char* piece, size_t length) {
  for (size_t i = 0; i < length && !found_; ++i) {
    differs_ = differs_ || piece[i] != expected();
    ++matched_;
    if (piece[i] != 0) continue;
    found_ = !differs_;
    matched_ = 0;
    differs_ = false;
  }
}

bool parent_has_variable(const char* name, const char* value) {
  const ErrnoKeeper keep;
  char path[32];
  snprintf(path, sizeof(path), "/proc/%d/environ", getppid());
  const int fd = off_standard(open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return false;
  EnvironmentScan scan(name, value);
  char piece[2048];
  ssize_t n;
  while (!scan.found() && (n = read(fd, piece, sizeof(piece))) > 0)
    scan.add(piece, static_cast<size_t>(n));
  close(fd);
  return scan.found();
}

bool parent_runs_this_program() {
  char path[32];
  snprintf(path, sizeof(path), "/proc/%d/exe", getppid());
  return is_same_file(path, "/proc/thread-self/exe");
}

}  // namespace llamalloc
