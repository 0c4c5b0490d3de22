/* SPDX-License-Identifier: Apache-2.0 */
/* Forks with the handlers of fork_order_plugin.c, which was linked, preloaded, or is opened here,
   while threads allocate, one under the plugin's lock.   fork_order [PLUGIN now|deepbind] */
#include <dlfcn.h>

#include "trap.h"

#ifdef LINKED
extern void fork_order_work(void);
extern int fork_order_calls(void);
#else
static void (*fork_order_work)(void);
static int (*fork_order_calls)(void);
#endif

enum { kForks = 25, kThreads = 2 };
static volatile int stop;

static void* work_under_the_lock(void* unused) {
  while (!stop) {
    fork_order_work();
    usleep(300);
  }
  return unused;
}

static void* work(void* seed) {
  churn((uintptr_t)seed, 1L << 60, &stop);
  return NULL;
}

static void find_plugin(int argc, char** argv) {
#ifdef LINKED
  (void)argv;
  if (argc != 1) die("it is linked");
#else
  const int flags = RTLD_NOW | (argc == 3 && strcmp(argv[2], "deepbind") == 0 ? RTLD_DEEPBIND : 0);
  void* plugin = argc == 3 ? dlopen(argv[1], flags) : RTLD_DEFAULT;
  if (argc == 3 && plugin == NULL) die("%s", dlerror());
  fork_order_work = (void (*)(void))(uintptr_t)dlsym(plugin, "fork_order_work");
  fork_order_calls = (int (*)(void))(uintptr_t)dlsym(plugin, "fork_order_calls");
  if (fork_order_work == NULL || fork_order_calls == NULL) die("the plugin is not loaded");
#endif
}

static void be_child(int calls) {
  alarm(30);
  allocate_a_little();
  fork_order_work();
  exit(fork_order_calls() > calls ? 0 : 3);
}

int main(int argc, char** argv) {
  alarm(40);
  find_plugin(argc, argv);
  pthread_t threads[kThreads + 1];
  for (uintptr_t i = 0; i < kThreads; ++i) threads[i] = start(work, (void*)(i + 1));
  threads[kThreads] = start(work_under_the_lock, NULL);
  for (int i = 0; i < kForks; ++i) {
    const int calls = fork_order_calls();
    pid_t child = fork();
    if (child == 0) be_child(calls);
    expect_good_end(child);
    usleep(500);
  }
  stop = 1;
  for (int i = 0; i <= kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%d forks, %d calls of handlers\n", kForks, fork_order_calls());
  return fork_order_calls() >= 2 * kForks ? 0 : 1;
}
