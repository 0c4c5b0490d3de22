// SPDX-License-Identifier: Apache-2.0
#include "os/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "base/check.h"
#include "os/fake/answered_calls.h"

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

struct Memory {
  char* start = static_cast<char*>(system_pages.map(kHugePageSize, kHugePageSize));
  Memory() {
    CHECK(start != nullptr);
    memset(start, 7, kHugePageSize);
  }
  ~Memory() { system_pages.unmap(start, kHugePageSize); }
  bool holds(char mark, size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i)
      if (start[i] != mark) return false;
    return true;
  }
};

// Each call says what became of it, whatever the system answers, and destroys nothing.
void call_all(int refused, int error) {
  const Memory memory;
  constexpr size_t kFree = kHugePageSize / 2;
  alarm(30);
  CHECK(refuse_advice(refused, error));
  errno = E2BIG;
  system_pages.advise_huge(memory.start, kHugePageSize, false);
  // A kernel before 5.4 knows no MADV_COLD: MADV_FREE does the same.
  const bool splits = refused != kCold || error == EINVAL;
  CHECK_EQ(system_pages.split(memory.start + kFree), splits);
  CHECK_EQ(system_pages.discard(memory.start + kFree, kFree), refused != MADV_DONTNEED);
  CHECK(memory.holds(refused == MADV_DONTNEED ? 7 : 0, kFree + kSmallPage, kHugePageSize));
  system_pages.advise_huge(memory.start, kHugePageSize, true);
  const Collapse made = system_pages.collapse(memory.start, kHugePageSize);
  if (refused == kCollapse) CHECK(made == (error == EINVAL ? Collapse::later : Collapse::refused));
  CHECK(memory.holds(7, 0, kFree));
  CHECK_EQ(errno, E2BIG);
  _exit(0);
}

TEST(SystemPages, SaysTheTruthWhateverTheSystemRefuses) {
  const int advice[] = {kCold, MADV_FREE, MADV_DONTNEED, kCollapse, MADV_HUGEPAGE, MADV_NOHUGEPAGE};
  for (const int refused : advice)
    for (const int error : {EINVAL, ENOMEM, EAGAIN, EBUSY, EPERM, EIO, ENOSYS})
      EXPECT_EXIT(call_all(refused, error), testing::ExitedWithCode(0), "")
          << "madvise " << refused << ": " << strerror(error);
}

// Neither the one nor the other is done: a kernel that knows no MADV_COLD, in a sandbox.
TEST(SystemPages, SaysThatItCannotSplit) {
  const Memory memory;
  const auto ask = [&memory] {
    if (!refuse_advice(MADV_FREE, EPERM) || !refuse_advice(kCold, EINVAL)) _exit(2);
    _exit(system_pages.split(memory.start) || !memory.holds(7, 0, kHugePageSize) ? 1 : 0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
}

// It is not to be made huge, and a kernel that knows the request says EINVAL, as one does that
// knows none. No page of it will become huge later.
TEST(SystemPages, TellsAKernelThatDoesNotFromOneThatCannotCollapse) {
  const Memory memory;
  const bool known = madvise(memory.start, 0, kCollapse) == 0;
  system_pages.advise_huge(memory.start, kHugePageSize, false);
  EXPECT_EQ(system_pages.collapse(memory.start, kHugePageSize),
            known ? Collapse::refused : Collapse::later);
  EXPECT_TRUE(memory.holds(7, 0, kHugePageSize));
}

TEST(SystemPages, WhatIsNoLongerCommittedHoldsItsPlace) {
  const Memory memory;
  ASSERT_TRUE(system_pages.uncommit(memory.start, kHugePageSize));
  void* const other = mmap(memory.start, kHugePageSize, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_NE(other, static_cast<void*>(memory.start));
  if (other != MAP_FAILED) munmap(other, kHugePageSize);
  ASSERT_TRUE(system_pages.commit(memory.start, kHugePageSize));
  EXPECT_TRUE(memory.holds(0, 0, kHugePageSize));
  EXPECT_FALSE(system_pages.uncommit(memory.start + 1, kHugePageSize));
}

// What the system could never give is refused at once, as by glibc: a process that trusts a wrong
// length sees that it has no memory, and is not killed when it writes to it. Space costs nothing.
TEST(SystemPages, RefusesMoreMemoryThanThereIs) {
  constexpr size_t kBytes = size_t{1} << 46;
  int mode = 1;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  if (mode == 1) GTEST_SKIP() << "this system promises any memory";
  EXPECT_EQ(system_pages.map(kBytes, kHugePageSize), nullptr);
  void* const mapping = system_pages.map(kHugePageSize, kHugePageSize);
  EXPECT_EQ(system_pages.remap(mapping, kHugePageSize, kBytes), nullptr);
  system_pages.unmap(mapping, kHugePageSize);
  system_pages.start();  // it may have seemed to be a limit
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

// A thread of the program moves what it resizes, under a filter that ends the process for asking.
TEST(SystemPages, AsksForNoLimitUnderAFilter) {
  const auto move = [] {
    char* mapping = static_cast<char*>(system_pages.map(64 * kHugePageSize, kHugePageSize));
    system_pages.start();
    const bool could = system_pages.can_move();
    mprotect(mapping + kHugePageSize, kSmallPage, PROT_NONE);
    if (!answer_calls(SYS_prlimit64, SECCOMP_RET_KILL_PROCESS)) _exit(2);
    void* moved = system_pages.remap(mapping, kHugePageSize, 32 * kHugePageSize);
    usleep(1'100'000);
    _exit(moved != nullptr && system_pages.can_move() == could ? 0 : 1);
  };
  EXPECT_EXIT(move(), testing::ExitedWithCode(0), "");
}

void set_limit(__rlimit_resource resource, size_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  CHECK_EQ(setrlimit(resource, &limit), 0);
}

TEST(SystemPages, FollowsALimitThatIsSetLaterWithinASecond) {
  const auto follow = [](__rlimit_resource resource) {
    system_pages.start();
    if (!system_pages.can_move()) _exit(0);  // the test runs under one
    set_limit(resource, size_t{1} << 30);
    CHECK(system_pages.can_move());
    usleep(1'100'000);
    CHECK(!system_pages.can_move());
    set_limit(resource, RLIM_INFINITY);
    usleep(1'100'000);
    _exit(system_pages.can_move() ? 0 : 1);
  };
  EXPECT_EXIT(follow(RLIMIT_AS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(follow(RLIMIT_DATA), testing::ExitedWithCode(0), "");
}

size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * kSmallPage;
}

// Where it is not known, as the filter was there before it: one place may be lost, and no more.
TEST(SystemPages, LearnsOfALimitWhereItCannotAsk) {
  const auto grow = [] {
    constexpr size_t kMany = 100, kMore = 16 * kHugePageSize;
    char* mapping = static_cast<char*>(system_pages.map(2 * kHugePageSize, kHugePageSize));
    mprotect(mapping + kHugePageSize, kSmallPage, PROT_NONE);
    system_pages.start();
    if (!answer_calls(SYS_prlimit64, SECCOMP_RET_KILL_PROCESS)) _exit(2);
    const rlimit limit{16 * kSmallPage, RLIM_INFINITY};
    CHECK_EQ(syscall(SYS_setrlimit, RLIMIT_DATA, &limit), 0);
    const size_t before = address_space();
    for (size_t i = 0; i < kMany; ++i)
      CHECK(system_pages.remap(mapping, kHugePageSize, kMore) == nullptr);
    _exit(address_space() <= before + 2 * kMore ? 0 : 1);
  };
  EXPECT_EXIT(grow(), testing::ExitedWithCode(0), "");
}

// Reading them is a system call; reading the monotonic clock is not.
TEST(SystemPages, ReadsNoProcessorClockUnderAFilter) {
  const Memory memory;
  const auto work = [&memory] {
    system_pages.start();
    const Nanos before = system_pages.processor_time();
    const Nanos then = system_pages.now();
    if (!answer_calls(SYS_clock_gettime, SECCOMP_RET_KILL_PROCESS)) _exit(2);
    usleep(2000);
    const Nanos first = system_pages.processor_time(), second = system_pages.processor_time();
    const Nanos passed = system_pages.now() - then;
    CHECK(first - before >= Nanos::millis(1) && second >= first);
    CHECK(second - before <= passed + Nanos::millis(1));
    CHECK(system_pages.discard(memory.start, kHugePageSize));
    _exit(system_pages.fetch(memory.start).n >= 0 ? 0 : 1);
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace llamalloc
