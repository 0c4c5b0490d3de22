// SPDX-License-Identifier: Apache-2.0
// daemon(3), after glibc's misc/daemon.c: there the parent ends by an _exit inside the C library.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

#include "recorder/recorder.h"

namespace llamalloc {
namespace {

constexpr dev_t kNullDevice = 0x103;  // major 1, minor 3

int replace_standard_files() {
  struct stat found;
  const int fd = open("/dev/null", O_RDWR);
  if (fd < 0) return -1;
  if (fstat(fd, &found) != 0 || !S_ISCHR(found.st_mode) || found.st_rdev != kNullDevice) {
    close(fd);
    return errno = ENODEV, -1;
  }
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(fd, standard);
  if (fd > STDERR_FILENO) close(fd);
  return 0;
}

}  // namespace

int become_daemon(bool keeps_folder, bool keeps_files) {
  const pid_t child = fork();
  if (child > 0) end_process(0);
  if (child < 0 || setsid() < 0) return -1;
  [[maybe_unused]] const int moved = keeps_folder ? 0 : chdir("/");  // glibc ignores it, too
  return keeps_files ? 0 : replace_standard_files();
}

}  // namespace llamalloc
