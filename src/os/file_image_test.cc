// SPDX-License-Identifier: Apache-2.0
#include "os/file_image.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace llamalloc {
namespace {

using Fault = FileImage::Fault;

class FileImageTest : public testing::Test {
 protected:
  FileImageTest() : path_(testing::TempDir() + "file_image." + std::to_string(getpid())) {}
  ~FileImageTest() override { unlink(path_.c_str()); }
  void write(const std::string& content) {
    FILE* file = fopen(path_.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(fwrite(content.data(), 1, content.size(), file), content.size());
    fclose(file);
  }
  std::string path_;
  FileImage image_;
};

TEST_F(FileImageTest, HoldsTheContentAfterTheFileIsCutShort) {
  const std::string content(10'000, 'x');
  write(content);
  ASSERT_EQ(image_.open(path_.c_str(), 10'000), Fault::none);
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(std::string(image_.data(), image_.size()), content);
  image_.close();
  EXPECT_EQ(image_.size(), 0u);
}

TEST_F(FileImageTest, RefusesWhatIsLargerThanTheLimit) {
  write("12345");
  EXPECT_EQ(image_.open(path_.c_str(), 4), Fault::too_large);
  EXPECT_EQ(image_.data(), nullptr);
}

TEST_F(FileImageTest, NamesTheReasonAndKeepsErrno) {
  errno = ENOTTY;
  EXPECT_EQ(image_.open("/no/such/file", 10), Fault::system);
  EXPECT_STREQ(image_.reason(), "No such file or directory");
  EXPECT_TRUE(image_.is_absent());
  EXPECT_EQ(errno, ENOTTY);
}

TEST_F(FileImageTest, RefusesFoldersAndPipesWithoutWaiting) {
  EXPECT_EQ(image_.open("/", 10), Fault::not_regular);
  EXPECT_EQ(image_.open("/dev/null/x", 10), Fault::system);
  EXPECT_FALSE(image_.is_absent());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(image_.open(path_.c_str(), 10), Fault::not_regular);
}

TEST_F(FileImageTest, ReadsAnEmptyFile) {
  write("");
  ASSERT_EQ(image_.open(path_.c_str(), 10), Fault::none);
  EXPECT_EQ(image_.size(), 0u);
}

}  // namespace
}  // namespace llamalloc
