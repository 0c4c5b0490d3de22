/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with the allocator, to be installed setuid: prints AT_SECURE and allocates.
     raised [twice]    frees an object twice */
#include <sys/auxv.h>

#include "trap.h"

#ifdef CONF
const char* llamalloc_conf = CONF;
#endif

int main(int argc, char** argv) {
  allocate_a_little();
  printf("AT_SECURE %lu\n", getauxval(AT_SECURE));
  fflush(stdout);
  if (argc == 1 || strcmp(argv[1], "twice") != 0) return 0;
  void* volatile p = malloc(100);
  free(p);
  free(p);
  printf("freed twice\n");
  return 0;
}
