/* SPDX-License-Identifier: Apache-2.0 */
/* Fork handlers that were registered before any library's constructor ran, and that allocate, in
   threads of their own if asked to: in prepare, after an allocator's handler that was registered
   later took its locks; in the child, before it freed them.   fork_handlers [threads] */
#include "trap.h"

enum { kForks = 60 };
static volatile int stop;
static int calls, in_threads;

static void* allocate(void* unused) {
  churn((uint64_t)calls, 1500, NULL);
  allocate_a_little();
  return unused;
}

static void handler(void) {
  ++calls;
  if (in_threads)
    pthread_join(start(allocate, NULL), NULL);
  else
    allocate(NULL);
}

static void first_of_all(int argc, char** argv, char** environment) {
  (void)argv, (void)environment;
  in_threads = argc == 2;
  pthread_atfork(handler, handler, handler);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char**,
                                                                        char**) = first_of_all;

static void* work(void* seed) {
  churn((uintptr_t)seed, 1L << 60, &stop);
  return NULL;
}

int main(void) {
  alarm(40);
  pthread_t threads[2] = {start(work, (void*)1), start(work, (void*)2)};
  for (int i = 0; i < kForks; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(30);
      allocate_a_little();
      exit(0);
    }
    expect_good_end(child);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("%d forks, %d calls of handlers\n", kForks, calls);
  return calls == 2 * kForks ? 0 : 1;
}
