/* SPDX-License-Identifier: Apache-2.0 */
/* A server that loads plugins, allocates through them and unloads them, for ever; its own contexts
   stay the same. Usage: plugins_server ROUNDS PLUGIN... */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { kDepths = 20, kFiberStack = 64 * 1024 };
static const int kSizes[] = {40, 100, 300, 1000, 3000};
static ucontext_t back, fiber;
static void* (*through)(size_t);

__attribute__((noinline)) static void own_contexts(int depth) {
  volatile int here = depth;
  if (depth > 0) {
    own_contexts(depth - 1);
  } else {
    for (int i = 0; i < 5; ++i) free(malloc(kSizes[i]));
  }
  here = here + 1;
}
static void use_plugin(void) {
  for (int i = 0; i < 5; ++i) free(through(kSizes[i]));
}
/* Near its end: a frame that is not as large as it was would reach beyond. */
static void use_plugin_on_a_fiber(void) {
  static char stack[kFiberStack];
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = sizeof(stack);
  fiber.uc_link = &back;
  makecontext(&fiber, use_plugin, 0);
  swapcontext(&back, &fiber);
}

static void load_and_use(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  static const char* const names[] = {"one", "two"};
  for (int i = 0; i < 6; ++i) {
    through = (void* (*)(size_t))dlsym(plugin, names[i % 2]);
    use_plugin();
    usleep(3000);
  }
  use_plugin_on_a_fiber();
  dlclose(plugin);
}

int main(int count, char** words) {
  for (int round = 0; round < atoi(words[1]); ++round) {
    for (int depth = 0; depth < kDepths; ++depth) own_contexts(depth);
    usleep(20000);
    for (int depth = 0; depth < kDepths; ++depth) own_contexts(depth);
    load_and_use(words[2 + round % (count - 2)]);
  }
  puts("served");
  return 0;
}
