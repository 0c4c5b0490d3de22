/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates in the resolver of an indirect function, while the loader still relocates and nobody's
   thread-local variables have their first values: glibc's manual says that a resolver must not call
   into other libraries. */
#include "trap.h"

static unsigned char* kept;

static int answer_is_42(void) {
  return 42;
}

static int (*resolve(void))(void) {
  kept = malloc(300);
  for (int i = 0; i < 300; ++i) kept[i] = 1;
  return answer_is_42;
}
int answer(void) __attribute__((ifunc("resolve")));

int main(void) {
  if (answer() != 42) die("the indirect function was not resolved");
  check_and_free(kept, 300, 1);
  printf("allocated while the loader relocates\n");
  return 0;
}
