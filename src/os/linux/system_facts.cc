// SPDX-License-Identifier: Apache-2.0
#include "os/system_facts.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

#include "base/errno_keeper.h"
#include "os/descriptor.h"

namespace llamalloc {

const char* transparent_huge_pages() {
  const ErrnoKeeper keep;
  char text[64] = "";
  const int fd =
      off_standard(open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
  if (fd >= 0) close(fd);
  if (n <= 0) return "unknown";
  for (const char* name : {"always", "madvise", "never"}) {
    const char* found = strstr(text, name);
    if (found != nullptr && found > text && found[-1] == '[') return name;
  }
  return "unknown";
}

bool has_raised_privileges() {
  return getauxval(AT_SECURE) != 0;
}

SystemCallFilter system_call_filter() {
  const ErrnoKeeper keep;
  return {prctl(PR_GET_SECCOMP) > 0, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0};
}

}  // namespace llamalloc
