// SPDX-License-Identifier: Apache-2.0
#include "pages/best_few.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace llamalloc {
namespace {

struct Entry {
  int value, order;
  bool operator<(const Entry& other) const { return value < other.value; }
};

TEST(BestFew, HoldsTheFirstOfAStableSort) {
  std::mt19937 random(1);
  for (int size = 0; size < 40; ++size) {
    BestFew<Entry, 8> best;
    std::vector<Entry> all;
    for (int i = 0; i < size; ++i) {
      all.push_back({static_cast<int>(random() % 10), i});
      best.add(all.back());
    }
    std::stable_sort(all.begin(), all.end());
    all.resize(std::min(all.size(), size_t{8}));
    ASSERT_EQ(best.empty(), all.empty());
    ASSERT_EQ(static_cast<size_t>(best.end() - best.begin()), all.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(best.begin()[i].order, all[i].order);
  }
}

}  // namespace
}  // namespace llamalloc
