// SPDX-License-Identifier: Apache-2.0
#include "os/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace llamalloc {
namespace {

namespace fs = std::filesystem;
using Fault = FileLock::Fault;

class FileLockTest : public testing::Test {
 protected:
  FileLockTest() : folder_(testing::TempDir() + "file_lock." + std::to_string(getpid())) {
    fs::create_directory(folder_);
  }
  ~FileLockTest() override {
    lock_.close();
    other_.close();
    fs::remove_all(folder_);
  }

  const std::string folder_;
  const std::string path_ = folder_ + "/lock";
  FileLock lock_;
  FileLock other_;
};

TEST_F(FileLockTest, OneHoldsItAtATime) {
  ASSERT_EQ(lock_.open(path_.c_str(), path_.c_str()), Fault::none);
  EXPECT_EQ(other_.open(path_.c_str(), path_.c_str()), Fault::busy);
  lock_.close();
  EXPECT_EQ(other_.open(path_.c_str(), path_.c_str()), Fault::none);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileLockTest, AChildThatWasForkedMeanwhileDoesNotKeepIt) {
  ASSERT_EQ(lock_.open(path_.c_str(), path_.c_str()), Fault::none);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  lock_.close();
  EXPECT_EQ(other_.open(path_.c_str(), path_.c_str()), Fault::none);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(FileLockTest, AProcessThatWasKilledDoesNotKeepIt) {
  const pid_t child = fork();
  if (child == 0) {
    lock_.open(path_.c_str(), path_.c_str());
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(lock_.open(path_.c_str(), path_.c_str()), Fault::none);
}

// As closefrom(3) does, and then a file of the program has the number.
TEST_F(FileLockTest, AFileOfTheProgramStaysOpen) {
  ASSERT_EQ(lock_.open(path_.c_str(), path_.c_str()), Fault::none);
  int fd = -1;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    if (fs::exists(entry) && fs::read_symlink(entry) == path_)
      fd = std::stoi(entry.path().filename().string());
  ASSERT_GE(fd, 0);
  const int own = open("/dev/null", O_RDONLY);
  ASSERT_EQ(dup2(own, fd), fd);
  EXPECT_EQ(other_.open(path_.c_str(), path_.c_str()), Fault::none) << "it went with the number";
  lock_.close();
  EXPECT_EQ(fcntl(fd, F_GETFD), 0);
  close(fd), close(own);
}

TEST_F(FileLockTest, FollowsNoLinkAndWaitsForNoPipe) {
  fs::create_symlink(folder_ + "/victim", path_);
  EXPECT_EQ(lock_.open(path_.c_str(), path_.c_str()), Fault::system);
  EXPECT_FALSE(fs::exists(folder_ + "/victim"));
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(lock_.open(path_.c_str(), path_.c_str()), Fault::none);
}

TEST_F(FileLockTest, SaysWhyAndKeepsErrno) {
  errno = ENOTTY;
  EXPECT_EQ(lock_.open((folder_ + "/no/lock").c_str(), path_.c_str()), Fault::system);
  EXPECT_STREQ(lock_.reason(), "No such file or directory");
  EXPECT_EQ(errno, ENOTTY);
}

}  // namespace
}  // namespace llamalloc
