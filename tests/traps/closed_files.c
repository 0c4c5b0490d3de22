/* SPDX-License-Identifier: Apache-2.0 */
/* A program without standard files: numbers 0 to 2 are its own to give, before and while the
   allocator opens what it was asked for. Prints "ok" into the file that becomes number 1. */
#include <fcntl.h>

#include "trap.h"

int main(int argc, char** argv) {
  if (argc == 2) { /* begins once more, without standard files */
    char* again[] = {argv[0], argv[1], "again", NULL};
    for (int fd = 0; fd < 3; ++fd) close(fd);
    execv(argv[0], again);
  }
  if (argc != 3) die("usage: closed_files FILE");
  allocate_a_little();
  usleep(200000); /* the worker writes and listens */
  for (int fd = 0; fd < 3; ++fd)
    if (open(argv[1], O_RDWR | O_CREAT, 0600) != fd) return 10 + fd;
  usleep(200000);
  printf("ok\n");
  return 0;
}
