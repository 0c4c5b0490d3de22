// SPDX-License-Identifier: Apache-2.0
#include "base/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace llamalloc {
namespace {

struct Row {
  uint64_t key;
  uint64_t rest[4];

  bool operator==(const Row&) const = default;
};

TEST(Sort, AgreesWithTheStandardOneForAllCounts) {
  for (size_t count = 0; count < 300; ++count) {
    std::vector<Row> rows(count);
    for (size_t i = 0; i < count; ++i) rows[i] = {mix(i, count), {i, i, i, i}};
    std::vector<Row> wanted = rows;
    const auto before = [](const Row& a, const Row& b) { return a.key < b.key; };
    std::sort(wanted.begin(), wanted.end(), before);
    sort_rows(rows.data(), count, before);
    ASSERT_EQ(rows, wanted) << count;
  }
}

TEST(Sort, OrdersRowsOfFourBytesByWhatTheyStandFor) {
  const std::vector<int> values = {5, 3, 9, 3, 1, 7, 3};
  std::vector<uint32_t> order = {0, 1, 2, 3, 4, 5, 6};
  sort_rows(order.data(), order.size(), [&](uint32_t a, uint32_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  EXPECT_EQ(order, (std::vector<uint32_t>{4, 1, 3, 6, 0, 5, 2}));
}

TEST(Sort, EqualAndSortedRowsStaySorted) {
  std::vector<int> equal(1000, 7), up(1000), down(1000);
  for (int i = 0; i < 1000; ++i) up[i] = i, down[i] = 999 - i;
  for (std::vector<int>* rows : {&equal, &up, &down}) {
    sort_rows(rows->data(), rows->size(), [](int a, int b) { return a < b; });
    EXPECT_TRUE(std::is_sorted(rows->begin(), rows->end()));
  }
  EXPECT_EQ(up, down);
}

}  // namespace
}  // namespace llamalloc
