/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with the allocator, to be installed setuid: prints AT_SECURE and allocates. */
#include <sys/auxv.h>

#include "trap.h"

int main(void) {
  allocate_a_little();
  printf("AT_SECURE %lu\n", getauxval(AT_SECURE));
  return 0;
}
