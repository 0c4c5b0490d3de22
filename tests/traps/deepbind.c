/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin opened with RTLD_DEEPBIND.   deepbind PLUGIN take|give|own
   take: we free and resize what it allocated; give: it frees what we allocated; own: each its own.
   With its malloc resolved to the C library's, only own can hold by symbols alone. */
#include <dlfcn.h>
#include <malloc.h>

#include "trap.h"

typedef void* Malloc(size_t);
typedef void Free(void*);

int main(int argc, char** argv) {
  if (argc != 3) die("usage: %s PLUGIN take|give|own", argv[0]);
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (plugin == NULL) die("%s", dlerror());
  Malloc* plugin_malloc = (Malloc*)(uintptr_t)dlsym(plugin, "plugin_malloc");
  Free* plugin_free = (Free*)(uintptr_t)dlsym(plugin, "plugin_free");
  for (size_t i = 0; i < 1000; ++i) {
    size_t size = 1 + i * i % 5000;
    unsigned char* theirs = plugin_malloc(size);
    memset(theirs, 4, size);
    unsigned char* ours = filled(size, 3);
    if (strcmp(argv[2], "take") == 0) {
      if (malloc_usable_size(theirs) < size) die("malloc_usable_size knows nothing of it");
      if (i % 2 == 0) theirs = realloc(theirs, size + 300);
      check_and_free(theirs, size, 4);
    } else {
      plugin_free(theirs);
    }
    if (strcmp(argv[2], "give") == 0)
      plugin_free(ours);
    else
      check_and_free(ours, size, 3);
  }
  printf("1000 objects each\n");
  return 0;
}
