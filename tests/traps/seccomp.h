/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of system calls, for good: of the calling thread, or of all. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "trap.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Goes on with the next if it is, else leaves out so many. */
#define IS(value, left_out) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, left_out)
#define GIVE(what) BPF_STMT(BPF_RET | BPF_K, what)

/* flags: 0, or SECCOMP_FILTER_FLAG_TSYNC. */
static inline void install_filter(struct sock_filter* code, size_t count, unsigned flags) {
  struct sock_fprog program = {(unsigned short)count, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0)
    die("seccomp: %s", strerror(errno));
}
