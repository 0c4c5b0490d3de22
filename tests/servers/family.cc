// SPDX-License-Identifier: Apache-2.0
// A server of one parent and COUNT workers: `family fork COUNT` or `family exec COUNT`. Workers
// that are forked keep the parent's library; those of exec load their own. Each works for memory,
// prints its PID and waits until stdin ends. `family KIND COUNT late` forks when a byte has come.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int work(void) {
  static void* volatile last;  // no call of malloc may be left out
  for (int i = 0; i < 20000; ++i) last = malloc(100);
  if (last == nullptr) return 1;
  printf("%d\n", getpid());
  fflush(stdout);
  char byte;
  for (;;) {
    last = malloc(1000);
    const ssize_t n = read(0, &byte, 1);
    if (n <= 0) return 0;
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return work();
  char byte;
  if (argc > 3 && read(0, &byte, 1) != 1) return 1;
  for (int i = atoi(argv[2]); i > 0; --i) {
    if (fork() != 0) continue;
    if (strcmp(argv[1], "exec") == 0) execl(argv[0], argv[0], static_cast<char*>(nullptr));
    exit(work());
  }
  work();
  int status = 0, worst = 0;
  while (wait(&status) > 0)
    if (status != 0) worst = 1;
  return worst;
}
