/* SPDX-License-Identifier: Apache-2.0 */
/* A child of the bare system call clone, which runs no fork handlers, exits by exit(). It has the
   memory of its parent, and nothing of its own.
     raw_child [SOCKET FILE]: SOCKET answers afterwards, and there is no FILE yet */
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "trap.h"

enum { kRounds = 100, kSeconds = 10 };

static int answers(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int good = connect(fd, (struct sockaddr*)&address, sizeof(address)) == 0;
  close(fd);
  return good;
}

int main(int argc, char** argv) {
  if (argc > 2 && !answers(argv[1])) die("no socket at the start");
  for (int round = 0; round < kRounds; ++round) {
    allocate_a_little();
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) exit(0);
    int left = kSeconds * 1000, status = 0;
    while (left > 0 && waitpid(child, &status, WNOHANG) == 0) usleep(1000), --left;
    if (left == 0) {
      kill(child, SIGKILL);
      die("a child hangs in exit, round %d", round);
    }
    if (status != 0) die("a child ended with status %d", status);
  }
  if (argc > 2 && !answers(argv[1])) die("a child took the socket away");
  if (argc > 2 && access(argv[2], F_OK) == 0) die("a child wrote the file");
  printf("%d children\n", kRounds);
  return 0;
}
