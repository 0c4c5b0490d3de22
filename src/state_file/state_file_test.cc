// SPDX-License-Identifier: Apache-2.0
// The state file on a disk: written whole or not at all, shared, full, removed, of others.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "learning/test_learned.h"
#include "os/fake/fake_pages.h"
#include "state_file/state_file.h"

namespace llamalloc {
namespace {

namespace fs = std::filesystem;
using Nodes = std::vector<LearnedNode>;

// That fit into a file, beside the frames of the golden one.
constexpr size_t kMostNodes = (kMaxLearnedBytes - learned_bytes(0, 2)) / kLearnedNodeBytes;

class StateFileTest : public testing::Test {
 protected:
  StateFileTest() : folder_(testing::TempDir() + "state_file." + std::to_string(getpid())) {
    fs::create_directory(folder_);
  }
  ~StateFileTest() override {
    state_.give_back();
    fs::remove_all(folder_);
    EXPECT_EQ(pages_.mapped, 0u);
  }

  bool write(const Nodes& nodes) { return write_to(path_, nodes); }
  bool write_to(const std::string& path, const Nodes& nodes) {
    const bool written = write_learned_state(path.c_str(), golden_header(), nodes, golden_frames(),
                                             pages_, error_, sizeof(error_));
    EXPECT_EQ(written, error_[0] == 0) << error_;
    return written;
  }
  ReadStatus read(const std::string& path) {
    state_.give_back();
    return read_learned_state(path.c_str(), golden_program(), pages_, &state_, error_,
                              sizeof(error_));
  }
  ReadStatus read() { return read(path_); }
  std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // False if another process has the lock.
  template <typename F>
  bool locked(F&& f) {
    return with_state_lock(path_.c_str(), f) != FileLock::Fault::busy;
  }
  // One round of a process that shares the file: false if another one has the lock.
  bool add_to_file(const Nodes& written, const Nodes& now) {
    return locked([&] {
      if (read() != ReadStatus::absent) {
        ASSERT_EQ(error_, std::string());
      }
      NodeArray sum;
      ASSERT_TRUE(merge_nodes(state_.nodes.view(), written, now, kMostNodes, pages_, &sum));
      ASSERT_TRUE(write({sum.view().begin(), sum.view().end()}));
      sum.give_back();
    });
  }
  // One more sample of a shared node and of an own one, and so on.
  void learn_and_share(uint64_t own_key) {
    Nodes written;
    for (uint16_t i = 1; i <= 50; ++i) {
      const Evidence evidence{{i}, {}, 0};
      const Nodes now{{1, 1, false, 0, evidence}, {own_key, 1, false, 0, evidence}};
      while (!add_to_file(written, now)) usleep(100);
      written = now;
    }
  }
  size_t files() { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  static Nodes many(size_t count) {
    Nodes nodes(count, golden_nodes()[0]);
    for (size_t i = 0; i < count; ++i) nodes[i].key = i, nodes[i].parent = nodes[i].word = 0;
    return nodes;
  }

  const std::string folder_;
  const std::string path_ = folder_ + "/s.learned";
  FakePages pages_;
  LearnedState state_;
  char error_[512] = "";
};

TEST_F(StateFileTest, WritesTheGoldenFileForTheUserOnly) {
  ASSERT_TRUE(write(golden_nodes()));
  EXPECT_EQ(content(path_), content(kGoldenState));
  struct stat found;
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(StateFileTest, ReadsBackWhatItWroteUpToTheBound) {
  const Nodes nodes = many(kMostNodes);
  ASSERT_TRUE(write(nodes));
  EXPECT_LE(fs::file_size(path_), kMaxLearnedBytes);
  ASSERT_EQ(read(), ReadStatus::ok) << error_;
  ASSERT_EQ(state_.nodes.size(), nodes.size());
  EXPECT_EQ(memcmp(state_.nodes.data(), nodes.data(), nodes.size() * sizeof(LearnedNode)), 0);
  EXPECT_FALSE(write(many(kMostNodes + 1)));
  EXPECT_EQ(read(), ReadStatus::ok);
}

TEST_F(StateFileTest, LeavesOutNodesWithoutSamples) {
  Nodes nodes = many(3);
  nodes[1].evidence = {};
  ASSERT_TRUE(write(nodes));
  ASSERT_EQ(read(), ReadStatus::ok) << error_;
  EXPECT_EQ(state_.nodes.size(), 2u);
}

TEST_F(StateFileTest, RefusesNodesOutOfOrder) {
  Nodes nodes = many(2);
  std::swap(nodes[0], nodes[1]);
  EXPECT_FALSE(write(nodes));
  EXPECT_EQ(files(), 0u);
}

TEST_F(StateFileTest, AbsentIsNoFault) {
  EXPECT_EQ(read(), ReadStatus::absent);
  EXPECT_STREQ(error_, "");
}

TEST_F(StateFileTest, NamesTheFileInOneLine) {
  std::ofstream(path_) << "llmlearn and then some";
  EXPECT_EQ(read(), ReadStatus::damaged);
  EXPECT_EQ(error_,
            "state " + path_ + ": truncated; it is not used, and replaced at the next write");
  EXPECT_EQ(read(folder_), ReadStatus::unreadable);
  EXPECT_EQ(error_, "state " + folder_ +
                        ": not a regular file; it is left alone: name another file, or a folder");
  std::ofstream(path_) << std::string(kMaxLearnedBytes + 1, 'x');
  EXPECT_EQ(read(), ReadStatus::unreadable);
  EXPECT_EQ(read(path_ + "/x"), ReadStatus::unreadable);
  EXPECT_EQ(error_, "state " + path_ +
                        "/x: cannot be read: Not a directory; correct that, or name another file");
}

TEST_F(StateFileTest, AFullDiskLeavesTheOldFile) {
  ASSERT_TRUE(write(many(10)));
  const std::string before = content(path_);
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{20'000, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const bool written = write(many(5'000));
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_FALSE(written);
  EXPECT_EQ(error_, "state " + path_ +
                        ": cannot be written: File too large; an earlier file stays: correct "
                        "that, or name another place");
  EXPECT_EQ(content(path_), before);
  EXPECT_EQ(files(), 1u);
  EXPECT_FALSE(write_to("/dev/full", many(10)));
  EXPECT_NE(std::string(error_).find("No space left on device"), std::string::npos) << error_;
}

TEST_F(StateFileTest, AMissingFolderIsNamedAsTheCause) {
  const std::string path = folder_ + "/missing/s.learned";
  EXPECT_FALSE(write_to(path, many(1)));
  EXPECT_EQ(error_, "state " + path +
                        ": cannot be written: No such file or directory: its folder is missing; "
                        "make it, or name another place");
}

TEST_F(StateFileTest, AFolderThatIsNotToBeWrittenIsOneLine) {
  if (geteuid() == 0) {
    EXPECT_FALSE(write_to("/proc/self/s.learned", many(1)));
  } else {
    ASSERT_TRUE(write(many(1)));
    fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_FALSE(write(many(2)));
    fs::permissions(folder_, fs::perms::owner_all);
    EXPECT_EQ(files(), 1u);
  }
  EXPECT_NE(std::string(error_).find(": cannot be written: "), std::string::npos) << error_;
}

TEST_F(StateFileTest, AFolderThatWasRemovedMeanwhileIsOneLine) {
  ASSERT_TRUE(add_to_file({}, many(1)));
  fs::remove_all(folder_);
  EXPECT_EQ(read(), ReadStatus::absent);
  EXPECT_TRUE(locked([&] { EXPECT_FALSE(write(many(1))); }));
  EXPECT_NE(std::string(error_).find("No such file or directory"), std::string::npos) << error_;
  fs::create_directory(folder_);
  EXPECT_TRUE(add_to_file({}, many(1)));
}

TEST_F(StateFileTest, FollowsNoLinkThatLiesInWait) {
  const std::string victim = folder_ + "/victim";
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, path_ + ".tmp." + std::to_string(getpid()));
  fs::create_symlink(victim, path_ + ".lock");
  EXPECT_TRUE(locked([&] { EXPECT_TRUE(write(many(1))); }));
  EXPECT_EQ(content(victim), "precious");
}

// A server's start as root must not take the file from its workers.
TEST_F(StateFileTest, WhatRootWritesBelongsToTheOwnerOfThePlace) {
  constexpr uid_t kOther = 65534;
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const auto owner = [](const std::string& path) {
    struct stat found = {};
    return lstat(path.c_str(), &found) == 0 ? found.st_uid : uid_t{1};
  };
  ASSERT_EQ(chown(folder_.c_str(), kOther, kOther), 0);
  EXPECT_TRUE(add_to_file({}, many(1)));
  EXPECT_EQ(owner(path_), kOther);
  EXPECT_EQ(owner(path_ + ".lock"), kOther);
  ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
  EXPECT_TRUE(add_to_file(many(1), many(2)));
  EXPECT_EQ(owner(path_), kOther) << "of whom it was";
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  EXPECT_TRUE(add_to_file(many(2), many(3)));
  EXPECT_EQ(owner(path_), 0u);
  ASSERT_EQ(chown(folder_.c_str(), kOther, kOther), 0);
  fs::permissions(folder_, fs::perms::all);
  EXPECT_TRUE(add_to_file(many(3), many(4)));
  EXPECT_EQ(owner(path_), 0u) << "in a folder that all may write to, it would not be believed";
  EXPECT_EQ(read(), ReadStatus::ok);
}

// Else each of them would write without the other's knowledge.
TEST_F(StateFileTest, WithoutRightsToTheLockNothingIsWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  std::ofstream(path_ + ".lock").close();
  fs::permissions(path_ + ".lock", fs::perms::owner_all);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    bool called = false;
    const auto fault = with_state_lock(path_.c_str(), [&] { called = true; });
    _exit(fault != FileLock::Fault::refused || called);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(StateFileTest, WhoDoesNotGetTheLockSkips) {
  int calls = 0;
  EXPECT_TRUE(locked([&] { EXPECT_FALSE(locked([&] { ++calls; })); }));
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(locked([&] { ++calls; }));
  EXPECT_EQ(calls, 1);
}

TEST_F(StateFileTest, WhatTenProcessesLearnAddsUp) {
  std::vector<pid_t> children;
  for (uint64_t i = 0; i < 10; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      learn_and_share(100 + i);
      _exit(HasFailure());
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ASSERT_EQ(read(), ReadStatus::ok) << error_;
  ASSERT_EQ(state_.nodes.size(), 11u);
  EXPECT_EQ(state_.nodes.view()[0].evidence.deaths[0], 500);
  for (size_t i = 1; i <= 10; ++i) EXPECT_EQ(state_.nodes.view()[i].evidence.deaths[0], 50) << i;
  EXPECT_EQ(files(), 2u);
}

TEST_F(StateFileTest, AFolderGetsAFileForEachProgram) {
  char path[4096];
  ASSERT_TRUE(learned_path(folder_.c_str(), "redis-server", path, sizeof(path)));
  EXPECT_EQ(path, folder_ + "/redis-server.learned");
  ASSERT_TRUE(learned_path("/no/such/", "a b/c", path, sizeof(path)));
  EXPECT_STREQ(path, "/no/such/a_b_c.learned");
  ASSERT_TRUE(learned_path("/no/such", "x", path, sizeof(path)));
  EXPECT_STREQ(path, "/no/such");
  ASSERT_TRUE(learned_path("/", "", path, sizeof(path)));
  EXPECT_STREQ(path, "/program.learned");
  ASSERT_TRUE(learned_path("/", std::string(300, 'x').c_str(), path, sizeof(path)));
  EXPECT_LT(std::string(path).size(), 220u);
  EXPECT_FALSE(learned_path("/no/such", "x", path, 8));
}

}  // namespace
}  // namespace llamalloc
