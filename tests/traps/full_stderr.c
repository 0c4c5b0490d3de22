/* SPDX-License-Identifier: Apache-2.0 */
/* stderr is a pipe that nobody reads, and it is full. The allocator has something to say meanwhile;
   the process forks. */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "trap.h"

/* Whether the pipe has the word somewhere behind what filled it. */
static int was_said(int fd, const char* word) {
  static char text[1 << 20];
  size_t have = 0;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  for (int wait = 0; wait < 20; ++wait, usleep(100000))
    for (ssize_t n; (n = read(fd, text + have, sizeof(text) - 1 - have)) > 0;) have += (size_t)n;
  for (size_t i = 0; i < have; ++i)
    if (text[i] == '\0') text[i] = ' ';
  text[have] = '\0';
  return strstr(text, word) != NULL;
}

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
  const int said = was_said(ends[0], "soft_limit");
  printf("20 forks%s\n", said ? "" : ", and nothing was said");
  return said ? 0 : 1;
}
