/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a thread-local block too large for static TLS: its first use in a thread makes the
   loader allocate, its closing makes the loader free. */
#include <stdlib.h>

static __thread char block[20000];
static __thread void* owned;

int touch(void);
int touch(void) {
  for (size_t i = 0; i < sizeof(block); i += 512) ++block[i];
  if (owned == NULL) owned = malloc(100);
  free(owned);
  owned = NULL;
  return block[0];
}
