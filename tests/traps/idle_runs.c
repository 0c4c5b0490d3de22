/* SPDX-License-Identifier: Apache-2.0 */
/* A process that has objects of some hundred KiB only, and sleeps once they are freed: no other
   call gives the allocator an occasion. After 10 s it is charged for at most 8 MiB. */
#include <string.h>

#include "charge.h"

enum { kObjects = 400, kBytes = 400 << 10, kMost = 8 * 1024 /* KiB */ };

int main(void) {
  static char* objects[kObjects];
  const long before = charge_kib() >= 0 ? charge_kib() : rss_kib();
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = malloc(kBytes);
    if (objects[i] == NULL) return 1;
    memset(objects[i], 1, kBytes);
  }
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  sleep(10);
  const long kept = (charge_kib() >= 0 ? charge_kib() : rss_kib()) - before;
  printf("%.1f MiB more than before after 10 s\n", (double)kept / 1024);
  return kept <= kMost ? 0 : 1;
}
