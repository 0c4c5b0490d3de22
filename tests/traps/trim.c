/* SPDX-License-Identifier: Apache-2.0 */
/* malloc_trim(0) at once after 160 MiB were freed: they are gone when it returns, and it says so.
 */
#include <malloc.h>

#include "trap.h"

enum { kObjects = 160 << 10 };

int main(void) {
  static unsigned char* objects[kObjects];
  allocate_a_little();
  long before = rss_kib();
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(1000, 1);
  unsigned char* large[10];
  for (int i = 0; i < 10; ++i) large[i] = filled(5 << 20, 2);
  for (int i = 0; i < 10; ++i) free(large[i]);
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  int result = malloc_trim(0);
  long after = rss_kib();
  printf("returned %d, %ld KiB more than before\n", result, after - before);
  return after - before <= 10 * 1024 ? 0 : 1;
}
