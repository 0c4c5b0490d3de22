// SPDX-License-Identifier: Apache-2.0
#include "generator/size_rates.h"

#include <gtest/gtest.h>

#include <fstream>

namespace llamalloc::generator {
namespace {

std::string written(const std::string& text) {
  const std::string path = ::testing::TempDir() + "sizes.csv";
  std::ofstream(path) << text;
  return path;
}

TEST(SizeRates, ReadsWhatWasMeasured) {
  std::string error;
  const std::string folder = LLAMALLOC_SOURCE_DIR "/workloads/fleetbench/";
  const auto small = read_size_rates(folder + "TCMALLOC_1.csv", &error);
  EXPECT_EQ(small.size(), 1038u) << error;
  EXPECT_EQ(small[0].size, 1u);
  EXPECT_DOUBLE_EQ(small[0].rate, 1034.0551342410517);
  EXPECT_DOUBLE_EQ(small[0].live, 15.631425914489142);
  EXPECT_NEAR(live_bytes(small), 81.9e6, 0.1e6);
  EXPECT_EQ(read_size_rates(folder + "TCMALLOC_3.csv", &error).size(), 1030u) << error;
}

TEST(SizeRates, NamesTheLineThatIsWrong) {
  for (const char* line : {"16, x, 3\n", "16, 1\n", "0, 1, 1\n", "16, 0, 1\n", "16, 1, 1, 1\n"}) {
    std::string error;
    EXPECT_TRUE(read_size_rates(written(std::string("8, 1, 2\n") + line), &error).empty()) << line;
    EXPECT_NE(error.find("sizes.csv:2: not"), std::string::npos) << error;
  }
}

TEST(SizeRates, SaysThatAFileIsMissingOrEmpty) {
  std::string error;
  EXPECT_TRUE(read_size_rates("/nowhere/sizes.csv", &error).empty());
  EXPECT_NE(error.find("/nowhere/sizes.csv: No such file"), std::string::npos) << error;
  EXPECT_TRUE(read_size_rates(written(""), &error).empty());
  EXPECT_NE(error.find("empty"), std::string::npos) << error;
}

}  // namespace
}  // namespace llamalloc::generator
