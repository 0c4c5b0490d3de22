/* SPDX-License-Identifier: Apache-2.0 */
/* Frees 64 MiB in random order and sleeps under a filter of system calls:
     late    set by the program that runs already; openat and membarrier end the process
     early   set before the program starts; membarrier is refused with an error
     allow   set before the program starts; it refuses nothing
   A background thread that looks into /proc, or issues a barrier, then does not see the end. */
#include "seccomp.h"

enum { kObjects = 64 << 10, kSize = 1000 };
static unsigned char* objects[kObjects];

/* What happens for the two calls. */
static void filter(unsigned openat_gives, unsigned membarrier_gives) {
  struct sock_filter code[] = {
      LOAD(nr),
      IS(SYS_openat, 1),
      GIVE(openat_gives),
      IS(SYS_membarrier, 1),
      GIVE(membarrier_gives),
      GIVE(SECCOMP_RET_ALLOW),
  };
  install_filter(code, COUNT_OF(code), SECCOMP_FILTER_FLAG_TSYNC);
}

int main(int argc, char** argv) {
  const char* when = argc > 1 ? argv[1] : "";
  if (strcmp(when, "early") == 0 || strcmp(when, "allow") == 0) {
    filter(SECCOMP_RET_ALLOW,
           strcmp(when, "early") == 0 ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW);
    execl("/proc/self/exe", argv[0], "filtered", (char*)NULL);
    die("execl: %s", strerror(errno));
  }
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(kSize, (unsigned char)i);
  if (strcmp(when, "late") == 0) filter(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_PROCESS);
  uint64_t state = 1;
  for (int i = kObjects; i > 0; --i) {
    int j = (int)(next_random(&state) % (uint64_t)i);
    free(objects[j]);
    objects[j] = objects[i - 1];
  }
  sleep(3);
  printf("still there\n");
  return 0;
}
