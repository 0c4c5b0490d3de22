/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, uses in two threads and closes a library with thread-local storage, 300 times. */
#include <dlfcn.h>

#include "trap.h"

enum { kRounds = 300, kWarm = 50 };

static void* use(void* function) {
  int (*touch)(void) = (int (*)(void))(uintptr_t)function;
  if (touch() != 1) die("thread-local storage is not fresh");
  return NULL;
}

int main(int argc, char** argv) {
  long warm = 0;
  for (int i = 0; i < kRounds && argc == 2; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW);
    if (plugin == NULL) die("%s", dlerror());
    void* touch = dlsym(plugin, "touch");
    pthread_t thread = start(use, touch);
    use(touch);
    pthread_join(thread, NULL);
    if (dlclose(plugin) != 0) die("%s", dlerror());
    allocate_a_little();
    if (i == kWarm) warm = rss_kib();
  }
  long grown = rss_kib() - warm;
  printf("%ld KiB more after %d rounds\n", grown, kRounds - kWarm);
  return argc == 2 && grown < 4096 ? 0 : 1;
}
