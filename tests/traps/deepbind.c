/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin opened with RTLD_DEEPBIND.   deepbind PLUGIN take|give|own [WAY]
   take: we free and resize what it allocated; give: it frees what we allocated; own: each its own.
   WAY: now, lazy: its bindings; base: by dlmopen; runpath: by its name, to be found where we lie;
   refused: a filter lets nobody write to what is read-only;
   handle: no plugin, but the C library's malloc by dlsym.
   With its malloc resolved to the C library's, only own can hold by symbols alone. */
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

#include "seccomp.h"

typedef void* Malloc(size_t);
typedef void Free(void*);

static void refuse_to_unprotect(void) {
  struct sock_filter code[] = {
      LOAD(nr),
      IS(SYS_mprotect, 3),
      LOAD(args[2]),
      IS(PROT_READ | PROT_WRITE, 1),
      GIVE(SECCOMP_RET_ERRNO | EPERM),
      GIVE(SECCOMP_RET_ALLOW),
  };
  install_filter(code, COUNT_OF(code), 0);
}

static void* open_plugin(const char* path, const char* way) {
  if (strcmp(way, "refused") == 0) refuse_to_unprotect();
  if (strcmp(way, "lazy") == 0) return dlopen(path, RTLD_LAZY | RTLD_DEEPBIND);
  if (strcmp(way, "base") == 0) return dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_DEEPBIND);
  if (strcmp(way, "runpath") == 0) return dlopen(strrchr(path, '/') + 1, RTLD_NOW | RTLD_DEEPBIND);
  if (strcmp(way, "handle") == 0) return dlopen("libc.so.6", RTLD_NOW);
  return dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
}

int main(int argc, char** argv) {
  if (argc < 3) die("usage: %s PLUGIN take|give|own [WAY]", argv[0]);
  const char* way = argc > 3 ? argv[3] : "now";
  void* plugin = open_plugin(argv[1], way);
  if (plugin == NULL) die("%s", dlerror());
  int handle = strcmp(way, "handle") == 0;
  Malloc* plugin_malloc = (Malloc*)(uintptr_t)dlsym(plugin, handle ? "malloc" : "plugin_malloc");
  Free* plugin_free = (Free*)(uintptr_t)dlsym(plugin, handle ? "free" : "plugin_free");
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
