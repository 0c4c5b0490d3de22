// SPDX-License-Identifier: Apache-2.0
// FileSink where others can write too, where the disk is full, and where a program closed its
// standard files.
#include "os/byte_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace llamalloc {
namespace {

namespace fs = std::filesystem;

class FileSinkTest : public testing::Test {
 protected:
  FileSinkTest() : folder_(testing::TempDir() + "file_sink." + std::to_string(getpid())) {
    fs::create_directory(folder_);
  }
  ~FileSinkTest() override { fs::remove_all(folder_); }

  bool write_to(const std::string& path, const std::string& text) {
    return sink_.open(path.c_str()) && sink_.write(text.data(), text.size()) && sink_.commit();
  }
  std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  std::string in_folder(const std::string& name) { return folder_ + "/" + name; }
  size_t files() { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  const std::string folder_;
  FileSink sink_;
};

TEST_F(FileSinkTest, ReplacesTheFileAsAWhole) {
  const std::string path = in_folder("out");
  put(path, "old");
  EXPECT_TRUE(write_to(path, std::string(100'000, 'x')));
  EXPECT_EQ(content(path), std::string(100'000, 'x'));
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileSinkTest, FollowsNoLinkThatLiesInWait) {
  const std::string path = in_folder("out"), victim = in_folder("victim");
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  put(victim, "precious");
  fs::create_symlink(victim, temporary);
  fs::create_symlink(victim, path);
  EXPECT_TRUE(write_to(path, "ours"));
  EXPECT_EQ(content(victim), "precious");
  EXPECT_EQ(content(path), "ours");
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(FileSinkTest, WritesToNoPipeOrLinkOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  const std::string pipe = in_folder("pipe"), link = in_folder("link");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(write_to(pipe, "to ourselves"));
  ASSERT_EQ(chown(pipe.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(write_to(pipe, "to a stranger"));
  EXPECT_EQ(sink_.error(), EACCES);
  fs::create_symlink("/dev/null", link);
  EXPECT_TRUE(write_to(link, "into our own link"));
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(write_to(link, "where a stranger points"));
  EXPECT_EQ(sink_.error(), EACCES);
  close(reader);
}

// As /dev/stdout is a link to a descriptor: what took its place would serve the whole system.
TEST_F(FileSinkTest, WhatADescriptorLeadsToIsWrittenAtItsEnd) {
  const std::string log = in_folder("log"), link = in_folder("stdout");
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT, 0644);
  ASSERT_EQ(write(fd, "begun ", 6), 6);
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  fs::create_symlink(own, link);
  EXPECT_EQ(FileSink::why_not(link.c_str()), 0);
  EXPECT_TRUE(write_to(link, "by link "));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(write_to(own, "by number"));
  EXPECT_EQ(content(log), "begun by link by number");
  EXPECT_EQ(files(), 2u);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{30, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(write_to(link, "more than that"));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(sink_.error(), EFBIG);
  close(fd);
}

TEST_F(FileSinkTest, WhatTookThePlaceOfADeviceIsNotWrittenTo) {
  const std::string path = in_folder("out"), file = in_folder("file");
  put(file, "precious");
  fs::create_symlink("/dev/null", path);
  std::atomic<bool> done{false};
  std::thread exchanger([&] {
    for (int i = 0; !done; ++i) {
      const std::string next = in_folder("next");
      fs::create_symlink(i % 2 != 0 ? "/dev/null" : file.c_str(), next);
      fs::rename(next, path);
    }
  });
  int refused = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (refused < 3 && std::chrono::steady_clock::now() < end)
    refused += !write_to(path, "x") && sink_.error() == EACCES;
  done = true;
  exchanger.join();
  EXPECT_GT(refused, 0);
  EXPECT_EQ(content(file), "precious");
}

TEST_F(FileSinkTest, AFullDeviceIsAFault) {
  EXPECT_FALSE(write_to("/dev/full", "x"));
  EXPECT_EQ(sink_.error(), ENOSPC);
}

TEST_F(FileSinkTest, ALimitOnFileSizesEndsTheFileAndNotTheProgram) {
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{20'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const bool written = write_to(in_folder("out"), std::string(100'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(written);
  EXPECT_EQ(sink_.error(), EFBIG);
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileSinkTest, LeavesNothingWhereTheFileCannotBeReplaced) {
  const std::string path = in_folder("out");
  ASSERT_TRUE(sink_.open(path.c_str()));
  fs::create_directory(path);
  EXPECT_FALSE(sink_.commit());
  EXPECT_EQ(sink_.error(), EISDIR);
  EXPECT_STREQ(sink_.reason(), "Is a directory");
  EXPECT_EQ(files(), 1u);
}

// Two containers whose processes have the same number, and a common volume.
TEST_F(FileSinkTest, TwoThatWriteTheSameFileWriteWholeFiles) {
  const std::string path = in_folder("out"), first(100'000, 'a'), second(90'000, 'b');
  FileSink other;
  put(path, "old");
  ASSERT_TRUE(sink_.open(path.c_str()) && sink_.write(first.data(), first.size()));
  ASSERT_TRUE(other.open(path.c_str()) && other.write(second.data(), second.size() / 2));
  EXPECT_FALSE(sink_.commit());
  EXPECT_EQ(sink_.error(), EEXIST);
  EXPECT_STREQ(sink_.reason(), "another process writes the same file");
  EXPECT_EQ(content(path), "old");
  EXPECT_TRUE(other.write(second.data() + second.size() / 2, second.size() / 2));
  EXPECT_TRUE(other.commit());
  EXPECT_EQ(content(path), second);
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileSinkTest, OneThatGivesUpLeavesTheFileOfAnother) {
  const std::string path = in_folder("out");
  FileSink other;
  ASSERT_TRUE(sink_.open(path.c_str()));
  ASSERT_TRUE(other.open(path.c_str()) && other.write("whole", 5));
  sink_.abandon();
  EXPECT_TRUE(other.commit());
  EXPECT_EQ(content(path), "whole");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileSinkTest, AfterTheFirstOneTheSecondFindsNothing) {
  const std::string path = in_folder("out");
  FileSink other;
  ASSERT_TRUE(sink_.open(path.c_str()));
  ASSERT_TRUE(other.open(path.c_str()) && other.write("whole", 5) && other.commit());
  EXPECT_FALSE(sink_.commit());
  EXPECT_EQ(sink_.error(), EEXIST);
  EXPECT_EQ(content(path), "whole");
}

TEST_F(FileSinkTest, APipeWhoseReaderEndsIsAFault) {
  const std::string pipe = in_folder("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(sink_.open(pipe.c_str()) && sink_.write("x", 1));
  close(reader);
  EXPECT_FALSE(sink_.commit());
  EXPECT_EQ(sink_.error(), EPIPE);
}

TEST_F(FileSinkTest, TakesNoNumberOfAStandardFile) {
  const int kept = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  ASSERT_TRUE(sink_.open(in_folder("out").c_str()));
  const int next = dup(kept);
  EXPECT_TRUE(sink_.commit());
  dup2(kept, STDIN_FILENO);
  close(kept);
  EXPECT_EQ(next, STDIN_FILENO);
}

// As closefrom(3) does, between two writes. The next file of the program would get the rest.
TEST_F(FileSinkTest, AProgramThatClosesWhatItDoesNotKnowKeepsItsFiles) {
  const std::string path = in_folder("out"), own = in_folder("own");
  ASSERT_TRUE(sink_.open(path.c_str()));
  int fd = -1;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    if (fs::exists(entry) && fs::read_symlink(entry).string().rfind(path, 0) == 0)
      fd = std::stoi(entry.path().filename().string());
  ASSERT_GE(fd, 0);
  put(own, "mine");
  const int opened = open(own.c_str(), O_WRONLY);
  ASSERT_EQ(dup2(opened, fd), fd);
  const std::string text(100'000, 'x');
  EXPECT_FALSE(sink_.write(text.data(), text.size()) && sink_.commit());
  EXPECT_EQ(content(own), "mine");
  EXPECT_EQ(fcntl(fd, F_GETFD), 0) << "it is open";
  EXPECT_STREQ(sink_.reason(), "the program has closed the file");
  EXPECT_EQ(files(), 1u) << "nothing is left behind";
  close(fd), close(opened);
}

TEST_F(FileSinkTest, SaysBeforehandWhyAPathCannotBeWritten) {
  EXPECT_EQ(FileSink::why_not(in_folder("out").c_str()), 0);
  EXPECT_EQ(FileSink::why_not("a_file_that_is_not_there"), 0);
  EXPECT_EQ(FileSink::why_not("/out"), geteuid() == 0 ? 0 : EACCES);
  EXPECT_EQ(FileSink::why_not("/dev/null"), 0);
  EXPECT_EQ(FileSink::why_not(in_folder("no/out").c_str()), ENOENT);
  EXPECT_EQ(FileSink::why_not("/dev/null/out"), ENOTDIR);
  EXPECT_EQ(FileSink::why_not(folder_.c_str()), EISDIR);
  EXPECT_EQ(FileSink::why_not((folder_ + "/").c_str()), EISDIR);
  EXPECT_EQ(FileSink::why_not(std::string(5000, 'x').c_str()), ENAMETOOLONG);
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace llamalloc
