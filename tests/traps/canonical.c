/* SPDX-License-Identifier: Apache-2.0 */
/* A program without PIE that asks for the address of getpid: then all of the process believes that
   getpid lies in the program. 200 MiB that it frees go back all the same. */
#include "trap.h"

static pid_t (*volatile address)(void);

enum { kObjects = 200000 };
static unsigned char* objects[kObjects];

int main(void) {
  extern char __executable_start, etext;
  address = getpid;
  const char* code = (const char*)(uintptr_t)address;
  if (code < &__executable_start || code >= &etext) die("getpid is not seen in the program");
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(1000, 1);
  long full = rss_kib();
  for (int i = 0; i < kObjects; ++i) check_and_free(objects[i], 1000, 1);
  for (int i = 0; i < 80 && rss_kib() > full / 4; ++i) {
    free(filled(1 << 17, 1));
    usleep(100000);
  }
  printf("%ld KiB, then %ld KiB\n", full, rss_kib());
  return rss_kib() <= full / 4 ? 0 : 1;
}
