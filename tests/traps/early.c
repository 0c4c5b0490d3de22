/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates before any constructor ran: in the resolver of an indirect function, while the loader
   still relocates, and in .preinit_array; then in the earliest constructor. */
#include "trap.h"

static unsigned char* kept[3];

static int answer_is_42(void) {
  return 42;
}

static int (*resolve(void))(void) {
  kept[0] = malloc(300);
  for (int i = 0; i < 300; ++i) kept[0][i] = 1;
  return answer_is_42;
}
int answer(void) __attribute__((ifunc("resolve")));

static void before_all(void) {
  kept[1] = filled(70000, 2);
  allocate_a_little();
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_all;

__attribute__((constructor(101))) static void first(void) {
  kept[2] = realloc(filled(400, 3), 500);
  allocate_a_little();
}

int main(void) {
  if (answer() != 42) die("the indirect function was not resolved");
  check_and_free(kept[0], 300, 1);
  check_and_free(kept[1], 70000, 2);
  check_and_free(kept[2], 400, 3);
  printf("allocated before constructors\n");
  return 0;
}
