/* SPDX-License-Identifier: Apache-2.0 */
/* What the trap programs share. Each prints one line of figures and exits with 0 if the trap did
   not shut; anything else, a signal or its time limit says that it did. Compiled with -fno-builtin,
   so that every malloc is called. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(text, sizeof(text) - 1, format, arguments);
  va_end(arguments);
  n = n < (int)sizeof(text) - 1 ? n : (int)sizeof(text) - 2;
  text[n] = '\n';
  ssize_t written = write(STDERR_FILENO, text, n + 1);
  _exit(written < 0 ? 2 : 1);
}

static inline uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* Memory whose every byte says what it belongs to. */
static inline unsigned char* filled(size_t size, unsigned char mark) {
  unsigned char* p = malloc(size);
  if (p == NULL) die("malloc(%zu): %s", size, strerror(errno));
  memset(p, mark, size);
  return p;
}

static inline void check_and_free(unsigned char* p, size_t size, unsigned char mark) {
  if (p[0] != mark || p[size / 2] != mark || p[size - 1] != mark) die("an object was overwritten");
  free(p);
}

/* One object of each of many sizes, small to direct mappings. */
static inline void allocate_a_little(void) {
  static const size_t sizes[] = {1, 24, 100, 1000, 5000, 40000, 300000, 1500000};
  unsigned char* p[COUNT_OF(sizes)];
  for (size_t i = 0; i < COUNT_OF(sizes); ++i) p[i] = filled(sizes[i], (unsigned char)i);
  for (size_t i = 0; i < COUNT_OF(sizes); ++i) check_and_free(p[i], sizes[i], (unsigned char)i);
}

/* Allocates and frees at random until *stop, or for so many rounds; sizes mostly small. */
static inline void churn(uint64_t seed, long rounds, const volatile int* stop) {
  enum { kObjects = 300 };
  unsigned char* p[kObjects] = {0};
  size_t size[kObjects];
  uint64_t state = seed * 2654435761u + 1;
  for (long i = 0; i < rounds && (stop == NULL || !*stop); ++i) {
    size_t at = next_random(&state) % kObjects;
    if (p[at] != NULL) check_and_free(p[at], size[at], (unsigned char)at);
    uint64_t r = next_random(&state);
    size[at] = 1 + (r >> 8) % (r % 200 == 0 ? 400000 : r % 10 == 0 ? 9000 : 500);
    p[at] = filled(size[at], (unsigned char)at);
  }
  for (size_t i = 0; i < kObjects; ++i)
    if (p[i] != NULL) check_and_free(p[i], size[i], (unsigned char)i);
}

/* The beginning of a file as text; -1: it cannot be read. It allocates nothing. */
static inline ssize_t read_file(const char* path, char* text, size_t room) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = 0, n = 0;
  while ((size_t)length + 1 < room && (n = read(file, text + length, room - 1 - length)) > 0)
    length += n;
  close(file);
  text[length] = '\0';
  return n < 0 ? -1 : length;
}

static inline long rss_kib(void) {
  char text[200];
  if (read_file("/proc/self/statm", text, sizeof(text)) <= 0) die("no /proc/self/statm");
  long pages = 0;
  sscanf(text, "%*d %ld", &pages);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static inline pthread_t start(void* (*f)(void*), void* argument) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, f, argument);
  if (error != 0) die("pthread_create: %s", strerror(error));
  return thread;
}

/* The child's exit code; a signal dies here with its name. */
static inline void expect_good_end(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) die("no child: %s", strerror(errno));
  if (WIFSIGNALED(status)) die("a child ended with signal %d", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) die("a child ended with %d", WEXITSTATUS(status));
}
