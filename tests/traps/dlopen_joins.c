/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a library whose constructor waits for a thread: dlopen_joins PLUGIN. */
#include <dlfcn.h>

#include "trap.h"

int main(int argc, char** argv) {
  if (argc != 2) die("usage: %s PLUGIN", argv[0]);
  if (dlopen(argv[1], RTLD_NOW) == NULL) die("%s", dlerror());
  puts("opened");
  return 0;
}
