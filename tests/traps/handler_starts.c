/* SPDX-License-Identifier: Apache-2.0 */
/* A handler frees so much that an allocator may want a thread of its own. It may have interrupted
   pthread_create, so that thread starts after it: prints the number of threads in the handler and
   after it. */
#include <dirent.h>
#include <signal.h>

#include "trap.h"

static int threads(void) {
  DIR* tasks = opendir("/proc/self/task");
  int found = 0;
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) found += task->d_name[0] != '.';
  closedir(tasks);
  return found;
}

static void free_much(int number) {
  enum { kObjects = 20000 };
  static unsigned char* p[kObjects];
  (void)number;
  for (int i = 0; i < kObjects; ++i) p[i] = filled(1000, 1);
  for (int i = 0; i < kObjects; ++i) free(p[i]);
}

static volatile int in_handler;

static void look(int number) {
  free_much(number);
  in_handler = threads();
}

int main(int argc, char** argv) {
  const int apart = argc > 1 && strcmp(argv[1], "apart") == 0;
  static char stack[1 << 16];
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
  const struct sigaction action = {.sa_handler = look, .sa_flags = apart ? SA_ONSTACK : 0};
  if (apart && sigaltstack(&own, NULL) != 0) die("sigaltstack: %s", strerror(errno));
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  free_much(0);
  printf("%d %d\n", in_handler, threads());
  return 0;
}
