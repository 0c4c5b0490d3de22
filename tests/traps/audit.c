/* SPDX-License-Identifier: Apache-2.0 */
/* A library for LD_AUDIT: it lives in a namespace of its own, with the C library's malloc. */
#include <link.h>
#include <stdlib.h>

static void* kept[1000];
static unsigned used;

unsigned la_version(unsigned version) {
  return version;
}

unsigned la_objopen(struct link_map* map, Lmid_t space, uintptr_t* cookie) {
  (void)map, (void)space, (void)cookie;
  free(kept[used % 1000]);
  kept[used++ % 1000] = malloc(100);
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
