// SPDX-License-Identifier: Apache-2.0
#include "os/pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
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

}  // namespace
}  // namespace llamalloc
