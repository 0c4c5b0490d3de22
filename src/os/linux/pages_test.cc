// SPDX-License-Identifier: Apache-2.0
#include "os/pages.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace llamalloc {
namespace {

std::map<std::string, uint64_t> vmstat() {
  std::map<std::string, uint64_t> counts;
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (uint64_t count; file >> name >> count;) counts[name] = count;
  return counts;
}

TEST(SystemPages, ReadsHowManyHugePagesWereSplit) {
  const auto before = vmstat();
  const Splits splits = system_pages.splits();
  auto after = vmstat();
  ASSERT_EQ(splits.known, after.contains("thp_split_page") && after.contains("thp_split_pmd"));
  if (!splits.known) GTEST_SKIP() << "this system does not count them";
  EXPECT_GE(splits.pages, before.at("thp_split_page"));
  EXPECT_LE(splits.pages, after["thp_split_page"]);
  EXPECT_GE(splits.mappings, before.at("thp_split_pmd"));
  EXPECT_LE(splits.mappings, after["thp_split_pmd"]);
}

// From now on each such call of the thread gets that answer.
bool answer_calls(unsigned call, unsigned answer) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Else the worker would try for ever, and each fork would wait for it.
TEST(SystemPages, AskingAgainHasAnEnd) {
  void* page = system_pages.map(kSmallPage, kSmallPage);
  ASSERT_NE(page, nullptr);
  // As where the system is out of something.
  const auto ask = [page] {
    alarm(30);
    if (!answer_calls(SYS_madvise, SECCOMP_RET_ERRNO | EAGAIN)) _exit(2);
    _exit(system_pages.discard(page, kSmallPage) ? 1 : 0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
  system_pages.unmap(page, kSmallPage);
}

// The program protects a part of its object: the system does not resize that. It is asked for no
// place then. Older kernels free the place before they refuse: when it is unmapped, it may be
// somebody else's.
TEST(SystemPages, TakesNoPlaceForWhatCannotMove) {
  constexpr size_t kBytes = 4 * kHugePageSize;
  char* mapping = static_cast<char*>(system_pages.map(kBytes, kHugePageSize));
  ASSERT_NE(mapping, nullptr);
  ASSERT_EQ(mprotect(mapping + kBytes / 2, kSmallPage, PROT_READ), 0);
  const auto ask = [mapping] {
    if (!answer_calls(SYS_munmap, SECCOMP_RET_KILL_PROCESS)) _exit(2);
    _exit(system_pages.remap(mapping, kBytes, 2 * kBytes) != nullptr ? 1 : 0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
  system_pages.unmap(mapping, kBytes);
}

// The small page behind each is taken, so that it has to move.
TEST(SystemPages, WhatMovesKeepsItsAlignment) {
  for (const size_t alignment : {kBlockSize, kHugePageSize})
    for (int i = 0; i < 8; ++i) {
      const size_t bytes = alignment + kSmallPage;
      auto* const mapping = static_cast<char*>(system_pages.map(bytes + kSmallPage, alignment));
      ASSERT_NE(mapping, nullptr);
      ASSERT_EQ(mprotect(mapping + bytes, kSmallPage, PROT_NONE), 0);
      void* const moved = system_pages.remap(mapping, bytes, bytes + 2 * kSmallPage);
      ASSERT_NE(moved, nullptr);
      EXPECT_NE(moved, mapping);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(moved) % alignment, 0u);
      system_pages.unmap(moved, bytes + 2 * kSmallPage);
      system_pages.unmap(mapping + bytes, kSmallPage);
    }
}

}  // namespace
}  // namespace llamalloc
