/* SPDX-License-Identifier: Apache-2.0 */
/* Its constructor runs under the loader's lock, and waits for a thread that frees an object of the
   C library's own malloc: that may not take that lock. */
#include <dlfcn.h>

#include "trap.h"

static void* free_it(void* object) {
  free(object);
  return NULL;
}

__attribute__((constructor)) static void wait_for_thread(void) {
  void* library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* (*take)(size_t) = (void* (*)(size_t))(uintptr_t)dlsym(library, "malloc");
  if (take == NULL) die("no malloc in the C library");
  pthread_join(start(free_it, take(100)), NULL);
}
