/* SPDX-License-Identifier: Apache-2.0 */
/* What runs under LD_AUDIT: threads, a library that comes and goes, objects of all sizes. */
#include <dlfcn.h>

#include "trap.h"

static void* work(void* seed) {
  churn((uintptr_t)seed, 20000, NULL);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2 || getenv("LD_AUDIT") == NULL) die("usage: LD_AUDIT=LIBRARY %s PLUGIN", argv[0]);
  pthread_t thread = start(work, (void*)3);
  for (int i = 0; i < 20; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW);
    if (plugin == NULL) die("%s", dlerror());
    dlclose(plugin);
    allocate_a_little();
  }
  pthread_join(thread, NULL);
  printf("ran under LD_AUDIT\n");
  return 0;
}
