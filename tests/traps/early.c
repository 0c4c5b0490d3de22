/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates before any constructor ran, in .preinit_array, and in the earliest constructor. */
#include "trap.h"

static unsigned char* kept[2];

static void before_all(void) {
  kept[0] = filled(70000, 2);
  allocate_a_little();
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_all;

__attribute__((constructor(101))) static void first(void) {
  kept[1] = realloc(filled(400, 3), 500);
  allocate_a_little();
}

int main(void) {
  check_and_free(kept[0], 70000, 2);
  check_and_free(kept[1], 400, 3);
  printf("allocated before constructors\n");
  return 0;
}
