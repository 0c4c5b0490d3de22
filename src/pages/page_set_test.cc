// SPDX-License-Identifier: Apache-2.0
#include "pages/page_set.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace llamalloc {
namespace {

// Runs of free blocks are split, joined and shortened in every way.
TEST(PageSet, KnowsTheLongestFreeRunOfAPage) {
  std::mt19937 random(7);
  PageSet set;
  LockGuard guard(set.lock());
  HugePage page;
  page.base = reinterpret_cast<char*>(kHugePageSize);
  std::vector<std::pair<uint32_t, Blocks>> taken{{0, {1}}};
  set.take_first(&page, {1});
  for (int step = 0; step < 5000; ++step) {
    const Blocks blocks{1 + static_cast<uint32_t>(random() % 40)};
    const auto place = random() % 2 != 0 ? set.take(blocks, 1u << random() % 5) : PageSet::Place{};
    if (place.page != nullptr) {
      taken.emplace_back(place.first, blocks);
    } else if (const size_t i = random() % taken.size(); taken.size() > 1) {
      set.give_back(&page, taken[i].first, taken[i].second);
      taken.erase(taken.begin() + static_cast<ptrdiff_t>(i));
    }
    ASSERT_EQ(page.longest_run, page.used.longest_clear());
    ASSERT_TRUE(set.is_consistent());
  }
}

}  // namespace
}  // namespace llamalloc
