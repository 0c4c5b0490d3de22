// SPDX-License-Identifier: Apache-2.0
#include "profile/tag_table.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace llamalloc {
namespace {

constinit TagTable shared;

TEST(TagTable, GivesEachNameOneId) {
  static constinit TagTable table;
  EXPECT_EQ(table.intern(nullptr), 0u);
  EXPECT_EQ(table.intern(""), 0u);
  const uint32_t get = table.intern("get");
  EXPECT_NE(get, 0u);
  EXPECT_NE(table.intern("set"), get);
  EXPECT_EQ(table.intern(std::string("get").c_str()), get);
  EXPECT_STREQ(table.text(get), "get");
  EXPECT_STREQ(table.text(0), "");
  EXPECT_TRUE(table.is_consistent());
}

TEST(TagTable, CutsLongNamesAndMendsUnprintableOnes) {
  static constinit TagTable table;
  const std::string longest(200, 'x');
  EXPECT_STREQ(table.text(table.intern(longest.c_str())), longest.substr(0, 63).c_str());
  EXPECT_STREQ(table.text(table.intern("a\nb\xff")), "a_b_");
  EXPECT_EQ(table.intern(longest.c_str()), table.intern((longest + "y").c_str()));
}

TEST(TagTable, CallsWhatIsTooManyOther) {
  static constinit TagTable table;
  for (uint32_t i = 1; i < TagTable::kMost; ++i)
    ASSERT_EQ(table.intern(("t" + std::to_string(i)).c_str()), i);
  EXPECT_STREQ(table.text(table.intern("one more")), "other");
  EXPECT_STREQ(table.text(table.intern("and one")), "other");
  EXPECT_EQ(table.intern("t7"), 7u);
  EXPECT_TRUE(table.is_consistent());
}

TEST(TagTable, ThreadsAgree) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 20'000; ++i) {
        const std::string name = "n" + std::to_string(i % 100);
        ASSERT_STREQ(shared.text(shared.intern(name.c_str())), name.c_str());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.size(), 101u);
  EXPECT_TRUE(shared.is_consistent());
}

}  // namespace
}  // namespace llamalloc
