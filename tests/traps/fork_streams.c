/* SPDX-License-Identifier: Apache-2.0 */
/* Forks while a thread flushes all streams and others allocate with a stream locked, as getline
   does: list of streams, then a stream, then malloc. The C library's fork takes the list last of
   all, after malloc's handlers. */
#include "trap.h"

enum { kReaders = 3, kForks = 60, kLine = 60000 };
static volatile int stop;

static void* read_lines(void* file) {
  while (!stop) {
    char* line = NULL;
    size_t room = 0;
    rewind(file);
    if (getline(&line, &room, file) != kLine) die("getline: %s", strerror(errno));
    free(line);
  }
  fclose(file);
  return NULL;
}

static void* flush(void* nothing) {
  while (!stop) fflush(NULL);
  return nothing;
}

static FILE* file_of_one_line(void) {
  FILE* file = tmpfile();
  if (file == NULL) die("tmpfile: %s", strerror(errno));
  for (int i = 1; i < kLine; ++i) fputc('x', file);
  fputc('\n', file);
  fflush(file);
  return file;
}

int main(void) {
  pthread_t threads[kReaders + 1];
  for (int i = 0; i < kReaders; ++i) threads[i] = start(read_lines, file_of_one_line());
  threads[kReaders] = start(flush, NULL);
  for (int i = 0; i < kForks; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    expect_good_end(child);
  }
  stop = 1;
  for (int i = 0; i <= kReaders; ++i) pthread_join(threads[i], NULL);
  printf("%d forks\n", kForks);
  return 0;
}
