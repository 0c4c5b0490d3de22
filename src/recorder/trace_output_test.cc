// SPDX-License-Identifier: Apache-2.0
// TraceOutput where others can write too, and in a child that has a copy of it.
#include "recorder/trace_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace llamalloc {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kStranger = 65534;

class TraceOutputTest : public testing::Test {
 protected:
  TraceOutputTest() : folder_(testing::TempDir() + "trace_output." + std::to_string(getpid())) {
    fs::create_directory(folder_);
    chmod(folder_.c_str(), 01777);
  }
  ~TraceOutputTest() override {
    output_.forget();
    fs::remove_all(folder_);
  }

  std::string in_folder(const std::string& name) { return folder_ + "/" + name; }
  void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool write(const std::string& text) { return output_.write(text.data(), text.size()); }
  bool write_to(const std::string& path, const std::string& text) {
    return output_.open(path.c_str()) && write(text);
  }
  void expect_refused(const std::string& path) {
    EXPECT_FALSE(output_.open(path.c_str()));
    EXPECT_EQ(errno, EACCES);
  }

  const std::string folder_;
  TraceOutput output_;
};

TEST_F(TraceOutputTest, WritesToWhatIsOurs) {
  const std::string path = in_folder("t.trace"), link = in_folder("link");
  EXPECT_TRUE(write_to(path, "new"));
  EXPECT_EQ(content(path), "new");
  put(path, "an old one, which is longer");
  EXPECT_TRUE(write_to(path, "again"));
  EXPECT_EQ(content(path), "again");
  fs::create_symlink(path, link);
  EXPECT_TRUE(write_to(link, "by a link"));
  EXPECT_EQ(content(path), "by a link");
  fs::remove(path);
  EXPECT_TRUE(write_to(link, "where nothing is"));
  EXPECT_EQ(content(path), "where nothing is");
}

TEST_F(TraceOutputTest, WritesIntoPipesThatAreNamed) {
  const std::string pipe = in_folder("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  const std::string number = "/dev/fd/" + std::to_string(open(pipe.c_str(), O_WRONLY));
  EXPECT_TRUE(write_to(pipe, "by name "));
  EXPECT_TRUE(write_to(number, "by number"));
  char text[32] = "";
  EXPECT_EQ(read(reader, text, sizeof(text)), 17);
  EXPECT_STREQ(text, "by name by number");
  close(reader);
}

TEST_F(TraceOutputTest, FollowsNoLinkOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  const std::string victim = in_folder("victim"), link = in_folder("link");
  put(victim, "precious");
  fs::create_symlink(victim, link);
  ASSERT_EQ(lchown(link.c_str(), kStranger, kStranger), 0);
  expect_refused(link);
  EXPECT_EQ(content(victim), "precious");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  expect_refused(link);
}

TEST_F(TraceOutputTest, WritesToNoPipeOrPlantedFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  const std::string pipe = in_folder("pipe"), file = in_folder("file");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  ASSERT_EQ(chown(pipe.c_str(), kStranger, kStranger), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  expect_refused(pipe);
  put(file, "his");
  ASSERT_EQ(chown(file.c_str(), kStranger, kStranger), 0);
  expect_refused(file);
  EXPECT_EQ(content(file), "his");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(write_to(file, "where he keeps it")) << "in a folder that is not open to all";
  close(reader);
}

TEST_F(TraceOutputTest, AChildWithACopyWritesNothing) {
  const std::string path = in_folder("t.trace");
  ASSERT_TRUE(write_to(path, "parent "));
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) _exit(write("child ") ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(write("parent"));
  EXPECT_EQ(content(path), "parent parent");
}

}  // namespace
}  // namespace llamalloc
