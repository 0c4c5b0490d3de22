// SPDX-License-Identifier: Apache-2.0
#include "profile/id_index.h"

#include <gtest/gtest.h>

#include <vector>

#include "profile/profile_test_util.h"

namespace llamalloc {
namespace {

TEST(IdIndex, FindsEveryIdAndNothingElse) {
  MetadataArena arena(system_pages);
  IdIndex index;
  EXPECT_EQ(index.find(1, [](uint32_t) { return true; }), IdIndex::kNone);
  for (uint32_t id = 0; id < 50'000; ++id) {
    ASSERT_TRUE(index.reserve_one(arena));
    index.insert(id / 3, id);  // three ids under each hash
  }
  for (uint32_t id = 0; id < 50'000; ++id)
    ASSERT_EQ(index.find(id / 3, [&](uint32_t found) { return found == id; }), id);
  EXPECT_EQ(index.find(0, [](uint32_t found) { return found > 2; }), IdIndex::kNone);
}

TEST(IdIndex, KeepsWhatItHasWhenItCannotGrow) {
  test::LimitedPages pages;
  MetadataArena arena(pages);
  IdIndex index;
  uint32_t used = 0;
  for (; used < 1'000'000 && index.reserve_one(arena); ++used) {
    index.insert(used, used);
    if (used == 20'000) pages.budget = 0;
  }
  EXPECT_GT(used, 20'000u);
  EXPECT_LT(used, 100'000u);
  for (uint32_t id = 0; id < used; ++id)
    ASSERT_EQ(index.find(id, [&](uint32_t found) { return found == id; }), id);
}

}  // namespace
}  // namespace llamalloc
