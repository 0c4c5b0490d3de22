// SPDX-License-Identifier: Apache-2.0
// Facts about the system that we run on, read without allocation.
#pragma once

#include <cstdint>
#include <cstring>

namespace llamalloc {

// Whether this process gets transparent huge pages. A program may switch them off for itself and
// its children at any time (prctl PR_SET_THP_DISABLE).
enum class HugePageSwitch { on, only_advised, off };
// `on` where the system does not say.
HugePageSwitch huge_page_switch();
// The system's setting as it holds for a process with this switch: "always", "madvise", "never" or
// "unknown", or "disabled" where the process switched them off.
struct HugePageFiles {
  const char* of_size = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
  const char* of_all = "/sys/kernel/mm/transparent_hugepage/enabled";
};
const char* transparent_huge_pages(HugePageSwitch process, const HugePageFiles& files = {});
// Whether such a process gets huge pages where it asks; it may where that is not known.
inline bool grants_huge_pages(const char* setting) {
  return strcmp(setting, "never") != 0 && strcmp(setting, "disabled") != 0;
}
// Where the program's first instruction is.
uintptr_t program_entry();
// Whether the process has more privileges than its user (setuid, capabilities).
bool has_raised_privileges();

// Whether a seccomp filter may refuse system calls of the calling thread, or end the process for
// them.
struct SystemCallFilter {
  bool present = false;
  bool no_new_privileges = false;  // a program without privileges must set it before a filter

  // Whether a filter has, or may have, been added since.
  bool is_newer_than(const SystemCallFilter& before) const {
    return present && (!before.present || no_new_privileges != before.no_new_privileges);
  }
};
SystemCallFilter system_call_filter();

}  // namespace llamalloc
