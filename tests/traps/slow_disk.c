/* SPDX-License-Identifier: Apache-2.0 */
/* The disk hangs: a thread of the allocator that replaces a file never returns from rename. The
   process exits meanwhile. */
#include <sys/syscall.h>

#include "trap.h"

enum { kSeconds = 10 };
static volatile int hangs;

int rename(const char* from, const char* to) {
  if (syscall(SYS_gettid) == getpid()) return (int)syscall(SYS_rename, from, to);
  hangs = 1;
  for (;;) pause();
}

int main(void) {
  for (int left = kSeconds * 100; left > 0 && !hangs; --left) usleep(10000);
  printf(hangs ? "a thread hangs\n" : "no thread writes\n");
  return hangs ? 0 : 1;
}
