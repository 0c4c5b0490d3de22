/* SPDX-License-Identifier: Apache-2.0 */
/* A C program whose plugin is in C++ and asks `new` for more than there is. The plugin brings the
   C++ library, which only it sees. */
#include <dlfcn.h>

#include "trap.h"

int main(int argc, char** argv) {
  if (argc != 2) die("the path of the plugin?");
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) die("%s", dlerror());
  const char* (*fails)(void) = (const char* (*)(void))dlsym(plugin, "fails_wrongly");
  const char* wrong = fails();
  if (wrong != NULL) die("%s", wrong);
  printf("bad_alloc and null\n");
  return 0;
}
