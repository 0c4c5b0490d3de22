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
// Of the kernel. Since Linux 6.8 each size has a setting, which comes first unless it is "inherit".
struct HugePageFiles {
  const char* of_size = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
  const char* of_all = "/sys/kernel/mm/transparent_hugepage/enabled";
};
// The system's setting: "always", "madvise", "never" or "unknown".
const char* transparent_huge_pages(const HugePageFiles& files = {});
// As it holds for a process with this switch; "disabled" where the process switched them off.
const char* huge_pages_in_force(const char* setting, HugePageSwitch process);
// Whether a process where this is in force gets huge pages when it asks; it may where that is not
// known.
inline bool grants_huge_pages(const char* setting) {
  return strcmp(setting, "never") != 0 && strcmp(setting, "disabled") != 0;
}
// Whether the system refuses memory by what all processes have committed, touched or not
// (vm.overcommit_memory 2); `before` where there is no descriptor left to read that.
bool counts_committed_memory(bool before, const char* path = "/proc/sys/vm/overcommit_memory");
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
