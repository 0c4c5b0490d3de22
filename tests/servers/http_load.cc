// SPDX-License-Identifier: Apache-2.0
// A program to look at over HTTP: `keep` and `churn` are call sites that a profile must tell apart.
// Commands on stdin, one a line:
//   keep BYTES COUNT    allocates and keeps
//   churn BYTES COUNT   allocates and frees at once
//   time SECONDS        allocates and frees; prints the longest call in seconds
//   fork                a child without work lives until stdin ends; prints its pid
//   forks COUNT         forks so often; prints how many children had descriptors above 2
//   end
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void* keep(size_t bytes) {
  char* p = static_cast<char*>(malloc(bytes));
  memset(p, 1, bytes);
  return p;
}

__attribute__((noinline)) void churn(size_t bytes) {
  char* volatile p = static_cast<char*>(malloc(bytes));
  p[0] = 1;
  free(p);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static double longest_call(double seconds) {
  double longest = 0;
  for (double last = now(), end = last + seconds; last < end;) {
    churn(100);
    const double time = now();
    if (time - last > longest) longest = time - last;
    last = time;
  }
  return longest;
}

static void child(void) {
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  _exit(0);
}

static bool has_descriptors(void) {
  for (int fd = 3; fd < 1024; ++fd)
    if (fcntl(fd, F_GETFD) != -1) return true;
  return false;
}

static int children_with_descriptors(size_t count) {
  int children = 0, status;
  for (size_t i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(has_descriptors());
    children += waitpid(pid, &status, 0) != pid || status != 0;
  }
  return children;
}

int main(void) {
  char line[100];
  size_t bytes, count;
  double seconds;
  static void* volatile last;
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    if (sscanf(line, "keep %zu %zu", &bytes, &count) == 2) {
      for (size_t i = 0; i < count; ++i) {
        void** p = static_cast<void**>(keep(bytes));
        p[0] = last;
        last = p;
      }
      printf("done\n");
    } else if (sscanf(line, "churn %zu %zu", &bytes, &count) == 2) {
      for (size_t i = 0; i < count; ++i) churn(bytes);
      printf("done\n");
    } else if (sscanf(line, "time %lf", &seconds) == 1) {
      printf("%f\n", longest_call(seconds));
    } else if (sscanf(line, "forks %zu", &count) == 1) {
      printf("%d\n", children_with_descriptors(count));
    } else if (strncmp(line, "fork", 4) == 0) {
      const pid_t pid = fork();
      if (pid == 0) child();
      printf("%d\n", pid);
    } else {
      break;
    }
    fflush(stdout);
  }
  return 0;
}
