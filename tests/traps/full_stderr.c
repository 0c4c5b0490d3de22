/* SPDX-License-Identifier: Apache-2.0 */
/* stderr is a pipe that nobody reads, and it is full. The allocator has something to say meanwhile;
   the process forks. */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "trap.h"

int main(void) {
  static char page[4096];
  enum { kObjects = 64000, kBytes = 1000 };
  static char* objects[kObjects];
  int ends[2];
  if (pipe(ends) != 0 || dup2(ends[1], 2) != 2) return 1;
  fcntl(2, F_SETFL, O_NONBLOCK);
  while (write(2, page, sizeof(page)) > 0) {
  }
  fcntl(2, F_SETFL, 0);
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = malloc(kBytes);
    if (objects[i] == NULL) return 1;
    memset(objects[i], 1, kBytes);
  }
  for (int i = 0; i < kObjects; i += 2) free(objects[i]);
  for (int i = 0; i < 20; ++i) {
    usleep(100000);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0 || waitpid(child, NULL, 0) != child) return 1;
  }
  for (int i = 1; i < kObjects; i += 2) free(objects[i]);
  printf("20 forks\n");
  return 0;
}
