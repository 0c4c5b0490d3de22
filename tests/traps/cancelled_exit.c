/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is about to be cancelled exits: what is written at its exit is no place to end at,
   so the exit code is the one that it gave. */
#include "trap.h"

enum { kObjects = 20000, kCode = 3 };

static void exit_cancelled(void) {
  for (int i = 0; i < kObjects; ++i) free(filled(1000, 1));
  pthread_cancel(pthread_self());
  exit(kCode);
}

int main(int argc, char** argv) {
  if (argc > 1) exit_cancelled();
  const pid_t child = fork();
  if (child == 0) execl("/proc/self/exe", argv[0], "child", NULL);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) die("no child: %s", strerror(errno));
  if (!WIFEXITED(status)) die("ended by a signal");
  printf("exited with %d\n", WEXITSTATUS(status));
  return WEXITSTATUS(status) == kCode ? 0 : 1;
}
