/* SPDX-License-Identifier: Apache-2.0 */
/* Opened with RTLD_DEEPBIND, these names find the C library's malloc and not the preloaded one. */
#include <stdlib.h>

void* plugin_malloc(size_t size);
void* plugin_malloc(size_t size) {
  return malloc(size);
}

void plugin_free(void* p);
void plugin_free(void* p) {
  free(p);
}
