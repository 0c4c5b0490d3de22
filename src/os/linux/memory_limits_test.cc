// SPDX-License-Identifier: Apache-2.0
#include "os/memory_limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace llamalloc {
namespace {

constexpr size_t kMiB = 1 << 20;

// A folder that stands for /.
class MemoryLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "limits_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void second(const std::string& group = "/a/b", const std::string& mounted = "/") {
    write("/proc/thread-self/cgroup", "0::" + group + "\n");
    write("/proc/thread-self/mountinfo",
          "21 1 0:20 / /proc rw - proc proc rw\n"
          "30 23 0:26 " +
              mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void first(const std::string& group = "/a/b", const std::string& mounted = "/") {
    write("/proc/thread-self/cgroup", "4:cpu,cpuacct:/x\n3:memory:" + group + "\n0::/\n");
    write("/proc/thread-self/mountinfo",
          "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
          "32 23 0:28 " +
              mounted + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  void group(const std::string& path, const std::string& max, const std::string& current) {
    write("/sys/fs/cgroup" + path + "/memory.max", max);
    write("/sys/fs/cgroup" + path + "/memory.current", current);
  }
  MemoryLimits read() { return read_memory_limits(root_.c_str()); }
  std::string mib(size_t n) { return std::to_string(n * kMiB) + "\n"; }

  std::string root_;
};

TEST_F(MemoryLimitsTest, NoGroupNoLimit) {
  const MemoryLimits limits = read();
  EXPECT_EQ(limits.room, SIZE_MAX);
  EXPECT_EQ(limits.limit, SIZE_MAX);
  EXPECT_EQ(limits.unreadable, 0u);
}

TEST_F(MemoryLimitsTest, TheGroupAndAllAboveItCount) {
  second();
  group("/a/b", "max\n", mib(100));
  group("/a", mib(300), mib(150));
  EXPECT_EQ(read().room, 150 * kMiB);
  EXPECT_EQ(read().limit, 300 * kMiB);
  group("/a/b", mib(120), mib(100));
  EXPECT_EQ(read().room, 20 * kMiB);
  write("/sys/fs/cgroup/a/memory.high", mib(155));
  EXPECT_EQ(read().room, 5 * kMiB);
  write("/sys/fs/cgroup/memory.max", mib(151));
  write("/sys/fs/cgroup/memory.current", mib(150));
  EXPECT_EQ(read().room, 1 * kMiB) << "also the mount itself, in a container";
}

TEST_F(MemoryLimitsTest, TheTightestMayHaveMoreRoom) {
  second();
  group("/a/b", mib(400), mib(200));
  group("/a", mib(12000), mib(11790));
  const MemoryLimits limits = read();
  EXPECT_EQ(limits.room, 200 * kMiB);
  EXPECT_EQ(limits.limit, 400 * kMiB);
  EXPECT_EQ(limits.tightest_room, 210 * kMiB);
  EXPECT_EQ(limits.tightest, 12000 * kMiB);
}

TEST_F(MemoryLimitsTest, VersionOne) {
  first();
  write("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", mib(90));
  EXPECT_EQ(read().room, SIZE_MAX);
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", mib(100));
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", mib(90));
  EXPECT_EQ(read().room, 10 * kMiB);
  write("/sys/fs/cgroup/memory/a/memory.stat",
        "inactive_file 7\ntotal_inactive_file " + mib(30) + "total_rss 5\n");
  EXPECT_EQ(read().room, 40 * kMiB) << "the kernel drops files first";
}

// Its usage is at the limit by design, most of it of files. `near` begins at an eighth of the limit
// (release/limit_watch.h).
TEST_F(MemoryLimitsTest, AServiceThatReadsItsFilesAgainIsFarFromItsLimit) {
  second();
  group("/a/b", mib(8192), mib(8190));
  write("/sys/fs/cgroup/a/b/memory.stat", "anon " + mib(2000) + "file " + mib(6000) +
                                              "inactive_file " + mib(90) + "active_file " +
                                              mib(5900) + "slab_reclaimable " + mib(180));
  EXPECT_EQ(read().room, (2 + 90 + 2950 + 90) * kMiB);
  EXPECT_GT(read().room, read().limit / 8);

  std::filesystem::remove_all(root_);
  first();
  write("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", mib(8192));
  write("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", mib(8192));
  write("/sys/fs/cgroup/memory/a/b/memory.stat",
        "active_file 9\ntotal_inactive_file " + mib(90) + "total_active_file " + mib(5900));
  EXPECT_EQ(read().room, (90 + 2950) * kMiB);
}

TEST_F(MemoryLimitsTest, AHeapThatFillsTheLimitIsNearIt) {
  second();
  group("/a/b", mib(8192), mib(8190));
  // 5 GiB of shared memory count as files, too, but as no active or inactive ones.
  write("/sys/fs/cgroup/a/b/memory.stat", "anon " + mib(2500) + "file " + mib(5600) + "shmem " +
                                              mib(5120) + "inactive_file " + mib(80) +
                                              "active_file " + mib(400));
  EXPECT_EQ(read().room, (2 + 80 + 200) * kMiB);
  EXPECT_LE(read().room, read().limit / 16);
  write("/sys/fs/cgroup/a/b/memory.stat",
        "anon " + mib(8000) + "inactive_file " + mib(20) + "active_file " + mib(100));
  EXPECT_LE(read().room, read().limit / 32);
}

// A container sees only its part of the tree, mounted from its own group on.
TEST_F(MemoryLimitsTest, AMountFromTheGroupOn) {
  first("/docker/c1/inner", "/docker/c1");
  write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", mib(50));
  write("/sys/fs/cgroup/memory/inner/memory.usage_in_bytes", mib(20));
  EXPECT_EQ(read().room, 30 * kMiB);
  second("/../elsewhere", "/docker/c1");
  group("", mib(60), mib(20));
  EXPECT_EQ(read().room, 40 * kMiB) << "not below: what is mounted counts";
}

TEST_F(MemoryLimitsTest, ALimitOfZeroLeavesNoRoom) {
  second();
  group("/a/b", "0\n", mib(5));
  EXPECT_EQ(read().room, 0u);
  EXPECT_EQ(read().limit, 0u);
}

TEST_F(MemoryLimitsTest, GarbageIsCountedAndIgnored) {
  second();
  for (const char* text :
       {"", "lots\n", "-5\n", "12x\n", "maximum\n", "99999999999999999999999\n"}) {
    group("/a/b", text, mib(5));
    EXPECT_EQ(read().room, SIZE_MAX) << text;
    EXPECT_EQ(read().unreadable, 1u) << text;
  }
  group("/a/b", mib(10), "?\n");
  EXPECT_EQ(read().room, SIZE_MAX);
  EXPECT_EQ(read().unreadable, 1u);
}

TEST_F(MemoryLimitsTest, FilesThatVanishAreNoLimit) {
  second();
  group("/a/b", mib(10), mib(9));
  EXPECT_EQ(read().room, 1 * kMiB);
  std::filesystem::remove(root_ + "/sys/fs/cgroup/a/b/memory.current");
  EXPECT_EQ(read().room, SIZE_MAX);
  std::filesystem::remove_all(root_ + "/sys");
  EXPECT_EQ(read().room, SIZE_MAX);
  EXPECT_EQ(read().unreadable, 0u);
}

TEST_F(MemoryLimitsTest, AProcessThatMovesIsFollowed) {
  second();
  group("/a/b", mib(10), mib(9));
  group("/c", mib(100), mib(9));
  EXPECT_EQ(read().room, 1 * kMiB);
  second("/c");
  EXPECT_EQ(read().room, 91 * kMiB);
}

TEST_F(MemoryLimitsTest, FoldersAndPipesInPlaceOfFilesDoNotStall) {
  second();
  std::filesystem::create_directories(root_ + "/sys/fs/cgroup/a/b/memory.max");
  EXPECT_EQ(read().unreadable, 1u);
  std::filesystem::remove_all(root_ + "/sys/fs/cgroup/a/b/memory.max");
  ASSERT_EQ(mkfifo((root_ + "/sys/fs/cgroup/a/b/memory.max").c_str(), 0600), 0);
  EXPECT_EQ(read().room, SIZE_MAX);
}

// As when the program closes all descriptors and opens a pipe meanwhile.
TEST_F(MemoryLimitsTest, NothingIsReadFromAPipe) {
  second();
  group("/a/b", mib(10), mib(9));
  const std::string path = root_ + "/sys/fs/cgroup/a/b/memory.max";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int pipe = open(path.c_str(), O_RDWR);
  ASSERT_EQ(::write(pipe, "4096\n", 5), 5);
  EXPECT_EQ(read().room, SIZE_MAX);
  char text[8];
  EXPECT_EQ(::read(pipe, text, sizeof(text)), 5) << "it is still there";
  close(pipe);
}

TEST_F(MemoryLimitsTest, LongLinesAndLongPathsAreLeftOut) {
  second(std::string("/").append(3000, 'x'));
  group("/a/b", mib(10), mib(9));
  EXPECT_EQ(read().room, SIZE_MAX);
  second();
  const std::string text(5000, 'y');
  write("/proc/thread-self/mountinfo",
        text + "\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(read().room, 1 * kMiB) << "the line after it counts";
}

// A container that watches others has the groups of its host mounted, too, at any path.
TEST_F(MemoryLimitsTest, OfSeveralMountsTheOneThatHasTheGroupCounts) {
  second("/a/b");
  group("/a/b", mib(10), mib(9));
  const std::string own = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  const std::string host = "29 23 0:26 /../.. /host/cgroup rw - cgroup2 cgroup2 rw\n";
  for (const std::string& mounts : {own + host, host + own}) {
    write("/proc/thread-self/mountinfo", mounts);
    EXPECT_EQ(read().room, 1 * kMiB) << mounts;
  }
  write("/my groups/a/b/memory.max", mib(10));
  write("/my groups/a/b/memory.current", mib(8));
  write("/proc/thread-self/mountinfo", "30 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(read().room, 2 * kMiB);
}

TEST_F(MemoryLimitsTest, PressureOfTheGroupOrElseOfTheSystem) {
  write("/proc/pressure/memory",
        "some avg10=3.07 avg60=1.00 avg300=0.00 total=5\nfull avg10=9.0\n");
  EXPECT_EQ(read().pressure, 307u);
  second();
  write("/sys/fs/cgroup/a/b/memory.pressure", "some avg10=42.50 avg60=0.00 avg300=0.00 total=1\n");
  EXPECT_EQ(read().pressure, 4250u);
  write("/sys/fs/cgroup/a/b/memory.pressure", "nothing\n");
  EXPECT_EQ(read().pressure, 307u);
}

TEST(MemoryLimits, OfThisSystemCanBeRead) {
  errno = 77;
  const MemoryLimits limits = read_memory_limits();
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(limits.room == SIZE_MAX, limits.limit == SIZE_MAX);
}

// In a process of its own, whose files in /proc/self are empty once its main thread has ended.
TEST(MemoryLimitsDeathTest, AreReadAfterTheMainThreadHasEnded) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto body = [] {
    const bool known = read_memory_charge() != SIZE_MAX;
    std::thread([known] {
      while (std::ifstream("/proc/self/maps").get() != EOF) usleep(1000);
      _exit((read_memory_charge() != SIZE_MAX) == known ? 0 : 1);
    }).detach();
    syscall(SYS_exit, 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(MemoryLimitsTest, TheChargeOfTheOwnGroupIsUsageWithoutPageCache) {
  const auto charge = [this] { return read_memory_charge(root_.c_str()); };
  EXPECT_EQ(charge(), SIZE_MAX);
  second();
  group("/a/b", "max\n", mib(100));
  write("/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile " + mib(40) + "shmem " + mib(10));
  EXPECT_EQ(charge(), 70 * kMiB);
  write("/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile " + mib(400) + "shmem 0\n");
  EXPECT_EQ(charge(), 0u) << "the two files are not of one moment";
  std::filesystem::remove(root_ + "/sys/fs/cgroup/a/b/memory.current");
  EXPECT_EQ(charge(), SIZE_MAX);
}

TEST_F(MemoryLimitsTest, TheChargeInVersionOne) {
  const auto charge = [this] { return read_memory_charge(root_.c_str()); };
  const std::string rows = "cache 1\ntotal_cache " + mib(30) + "total_shmem " + mib(5);
  first();
  write("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", mib(90));
  write("/sys/fs/cgroup/memory/a/b/memory.stat", rows);
  EXPECT_EQ(charge(), 65 * kMiB);
  first("/");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", mib(900));
  write("/sys/fs/cgroup/memory/memory.stat", rows);
  EXPECT_EQ(charge(), SIZE_MAX) << "the whole system";
}

}  // namespace
}  // namespace llamalloc
