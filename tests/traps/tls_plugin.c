/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a thread-local block, opened late, too large for static TLS: its first use in a
   thread makes the loader allocate, its closing makes the loader free. One that is preloaded has it
   in static TLS, whatever TLS_BYTES are. */
#include <stdlib.h>

#ifndef TLS_BYTES
#define TLS_BYTES 20000
#endif
static __thread char block[TLS_BYTES];
static __thread void* owned;

int touch(void);
int touch(void) {
  for (size_t i = 0; i < sizeof(block); i += 512) ++block[i];
  if (owned == NULL) owned = malloc(100);
  free(owned);
  owned = NULL;
  return block[0];
}
