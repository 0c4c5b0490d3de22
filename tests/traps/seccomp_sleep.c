/* SPDX-License-Identifier: Apache-2.0 */
/* Frees 64 MiB in random order and sleeps under a filter of system calls:
     late    set by the program that runs already; openat and membarrier end the process
     early   set before the program starts; membarrier is refused with an error
     allow   set before the program starts; it refuses nothing
   A background thread that looks into /proc, or issues a barrier, then does not see the end. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "trap.h"

enum { kObjects = 64 << 10, kSize = 1000 };
static unsigned char* objects[kObjects];

/* What happens for the two calls. */
static void filter(unsigned openat_gives, unsigned membarrier_gives) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, openat_gives),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, membarrier_gives),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {COUNT_OF(code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    die("seccomp: %s", strerror(errno));
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
