// SPDX-License-Identifier: Apache-2.0
// Whole waves from a context that the process meets for the first time, at full speed, and then the
// end: named_load KIND PLUGIN
//
//   own      a function of the program
//   plugin   one of a plugin that was loaded just before
//   forked   the same, in a child that loads it
//   handler  the same, first in a signal handler
//   filter   the same, where the program allows no file to be opened any more
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../traps/seccomp.h"

enum { kObjects = 500000 };
typedef void* (*Make)(size_t);
static Make make;
static void* kept;

__attribute__((noinline)) void* own_record(size_t size) {
  void* p = malloc(size);
  __asm__ volatile("");
  return p;
}

static void fill(void) {
  for (int i = 0; i < kObjects; ++i) {
    void** p = make(64);
    *p = kept;
    kept = p;
  }
}

static void on_signal(int number) {
  (void)number;
  kept = make(64);
  *(void**)kept = NULL;
}

// Whoever opens a file now is killed.
static void forbid_files(void) {
  struct sock_filter code[] = {
      LOAD(nr),
      IS(SYS_openat, 1),
      GIVE(SECCOMP_RET_KILL_PROCESS),
      GIVE(SECCOMP_RET_ALLOW),
  };
  install_filter(code, sizeof(code) / sizeof(code[0]), 0);
}

static void load(const char* plugin) {
  void* handle = dlopen(plugin, RTLD_NOW);
  make = handle != NULL ? (Make)dlsym(handle, "plugin_record") : NULL;
  if (make == NULL) exit(2);
}

int main(int count, char** words) {
  const char* kind = count == 3 ? words[1] : "";
  if (strcmp(kind, "forked") == 0) {
    const pid_t child = fork();
    int status = 1;
    if (child != 0) return waitpid(child, &status, 0) != child || status != 0;
  }
  if (strcmp(kind, "own") != 0) load(words[2]);
  if (make == NULL) make = own_record;
  if (strcmp(kind, "filter") == 0) forbid_files();
  if (strcmp(kind, "handler") == 0) {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
  }
  fill();
  return 0;
}
