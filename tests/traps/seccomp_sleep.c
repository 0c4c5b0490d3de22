/* SPDX-License-Identifier: Apache-2.0 */
/* A filter, set by a program that runs already, ends the process for opening a file. It frees 64
   MiB in random order and sleeps: an allocator that looks into /proc then does not see the end. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "trap.h"

enum { kObjects = 64 << 10, kSize = 1000 };
static unsigned char* objects[kObjects];

static void end_for_openat(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {COUNT_OF(code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    die("seccomp: %s", strerror(errno));
}

int main(void) {
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(kSize, (unsigned char)i);
  end_for_openat();
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
