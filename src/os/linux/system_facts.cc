// SPDX-License-Identifier: Apache-2.0
#include "os/system_facts.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "base/errno_keeper.h"
#include "os/descriptor.h"
#include "os/linux/read_at.h"

namespace llamalloc {

namespace {

constexpr const char *kUnknown = "unknown", *kNotRead = "";

// What is in the file, cut to fit; false: there is nothing to read, and errno says why.
template <size_t n>
bool read_short(const char* path, char (&text)[n]) {
  if (refuses_filtered_call()) return false;
  const int fd = off_standard(open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return false;
  const ssize_t length = read_at(fd, text, n - 1, 0);
  close_read(fd);
  if (length <= 0) errno = EIO;
  return length > 0;
}

// The word in brackets, if it is one of these. kNotRead: it may say anything.
const char* chosen_in(const char* path) {
  char text[64] = "";
  if (!read_short(path, text)) return errno == ENOENT ? kUnknown : kNotRead;
  for (const char* name : {"always", "madvise", "never"}) {
    const char* found = strstr(text, name);
    if (found != nullptr && found > text && found[-1] == '[') return name;
  }
  return kUnknown;
}

}  // namespace

// 0, 1, or since Linux 6.18 also 3: off except where advised.
HugePageSwitch huge_page_switch() {
  constexpr int kExceptAdvised = 1 << 1;
  const ErrnoKeeper keep;
  const int result = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
  if (result <= 0) return HugePageSwitch::on;
  return result & kExceptAdvised ? HugePageSwitch::only_advised : HugePageSwitch::off;
}

const char* transparent_huge_pages(const HugePageFiles& files) {
  const ErrnoKeeper keep;
  const char* setting = chosen_in(files.of_size);
  if (setting == kUnknown) setting = chosen_in(files.of_all);
  return setting == kNotRead ? kUnknown : setting;
}

const char* huge_pages_in_force(const char* setting, HugePageSwitch process) {
  if (strcmp(setting, "never") == 0) return setting;
  if (process == HugePageSwitch::off) return "disabled";
  const bool advised = process == HugePageSwitch::only_advised && strcmp(setting, "always") == 0;
  return advised ? "madvise" : setting;
}

bool counts_committed_memory(bool before, const char* path) {
  const ErrnoKeeper keep;
  char mode[8] = "";
  return read_short(path, mode) ? mode[0] == '2' : before;
}

bool has_raised_privileges() {
  return getauxval(AT_SECURE) != 0;
}

uintptr_t program_entry() {
  return getauxval(AT_ENTRY);
}

SystemCallFilter system_call_filter() {
  const ErrnoKeeper keep;
  return {prctl(PR_GET_SECCOMP) > 0, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0};
}

}  // namespace llamalloc
