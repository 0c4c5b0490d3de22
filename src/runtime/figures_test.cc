// SPDX-License-Identifier: Apache-2.0
#include "runtime/figures.h"

#include <gtest/gtest.h>

#include <numeric>

#include "runtime/process.h"

namespace llamalloc {
namespace {

TEST(Figures, CountSlotsMappingsAndPages) {
  const Figures before = current_figures();
  void* slots[3];
  const int bin = bin_of(PageGroup::unknown, size_class_of(1024), false);
  ASSERT_EQ(process.heap.take(bin, slots, 3), 3u);
  Span* large = process.heap.allocate(5 << 20, 1, PageGroup::unknown, false);
  const Figures in_use = current_figures();
  EXPECT_EQ(in_use.allocated, before.allocated + 3 * 1024);
  EXPECT_EQ(in_use.direct_count, before.direct_count + 1);
  EXPECT_EQ(in_use.direct_bytes, before.direct_bytes + (5 << 20));
  EXPECT_GE(in_use.pages_backed, in_use.allocated);
  EXPECT_GE(in_use.reserved, in_use.pages_backed);
  EXPECT_EQ(in_use.peak_backed, in_use.pages_backed);
  const auto& free = in_use.free_slots_of;
  EXPECT_EQ(std::accumulate(std::begin(free), std::end(free), size_t{0}), in_use.free_slots);
  EXPECT_GT(free[size_class_of(1024)], 0u);
  process.heap.give(bin, slots, 3);
  process.heap.deallocate(large);
  const Figures after = current_figures();
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.direct_count, before.direct_count);
  EXPECT_GE(after.releasable, size_t{5} << 20) << "the mapping waits to be used again";
}

}  // namespace
}  // namespace llamalloc
