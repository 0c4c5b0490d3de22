/* SPDX-License-Identifier: Apache-2.0 */
/* A filter for all threads that allows the calls which docs/compatibility.md lists under "Refused
   system calls", and those of this program; any other ends the process.
     seccomp_listed running|before
   It is set while the thread of the allocator runs, or before that starts. Large buffers grow and
   move, small objects leave holes in their pages, the process rests, and it is still there. */
#include <time.h>

#include "seccomp.h"

enum { kObjects = 64 << 10, kSize = 1000, kStays = 50, kMiB = 1 << 20, kMostMiB = 64 };
static unsigned char* objects[kObjects];

static void allow_what_is_listed(void) {
  static const unsigned allowed[] = {/* at any time */
                                     SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise,
                                     SYS_futex, SYS_getpid, SYS_gettid, SYS_mincore,
                                     /* the start of the background thread, and that thread */
                                     SYS_sigaltstack, SYS_clone3, SYS_rt_sigaction,
                                     SYS_rt_sigprocmask, SYS_rseq, SYS_set_robust_list, SYS_prctl,
                                     /* of this program */
                                     SYS_write, SYS_clock_nanosleep, SYS_exit_group};
  struct sock_filter code[2 * COUNT_OF(allowed) + 2] = {LOAD(nr)};
  size_t n = 1;
  for (size_t i = 0; i < COUNT_OF(allowed); ++i) {
    code[n++] = (struct sock_filter)IS(allowed[i], 1);
    code[n++] = (struct sock_filter)GIVE(SECCOMP_RET_ALLOW);
  }
  code[n++] = (struct sock_filter)GIVE(SECCOMP_RET_KILL_PROCESS);
  install_filter(code, n, SECCOMP_FILTER_FLAG_TSYNC);
}

/* A second buffer is in the way now and then. */
static void grow(void) {
  unsigned char* p = NULL;
  unsigned char* behind = NULL;
  for (size_t mib = 1; mib <= kMostMiB; ++mib) {
    p = realloc(p, mib * kMiB);
    if (p == NULL) die("%zu MiB: %s", mib, strerror(errno));
    memset(p + (mib - 1) * kMiB, (int)mib, kMiB);
    if (mib % 8 != 0) continue;
    free(behind);
    behind = filled(3 * kMiB, 7);
  }
  for (size_t mib = 1; mib <= kMostMiB; ++mib)
    if (p[(mib - 1) * kMiB] != mib || p[mib * kMiB - 1] != mib) die("MiB %zu is lost", mib);
  free(p);
  free(behind);
}

static void leave_holes(void) {
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(kSize, (unsigned char)i);
  for (int i = 0; i < kObjects; ++i)
    if (i % kStays != 0) check_and_free(objects[i], kSize, (unsigned char)i);
}

static void free_rest(void) {
  for (int i = 0; i < kObjects; i += kStays) check_and_free(objects[i], kSize, (unsigned char)i);
}

int main(int argc, char** argv) {
  if (argc != 2) die("usage: %s running|before", argv[0]);
  if (strcmp(argv[1], "running") == 0) {
    leave_holes();
    free_rest();
    /* Not at the second when that thread looks: what it is about to call would end the process. */
    usleep(2500 * 1000);
  }
  allow_what_is_listed();
  for (int round = 0; round < 2; ++round) {
    grow();
    leave_holes();
    sleep(3);
    free_rest();
  }
  static const char text[] = "still there\n";
  if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0) return 1;
  return 0;
}
