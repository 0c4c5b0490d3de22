// SPDX-License-Identifier: Apache-2.0
// What describes the pages: their part of the map and the records of their spans.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "heap/heap.h"
#include "heap/test_heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

class TablesTest : public OnFakeMemory {
 protected:
};

// After a peak little of our own tables stays: neither their part of the map nor records of spans.
TEST_F(TablesTest, TablesOfReleasedPagesGoBackToo) {
  constexpr size_t kPages = 100;
  const auto fill = [&](std::vector<Span*>& runs) {
    while (heap_.pages().in_use() < kPages)
      runs.push_back(heap_.allocate(kRunMax, 1, PageGroup::unknown, false));
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<Span*> runs;
    fill(runs);
    EXPECT_GE(heap_.map_bytes(), kPages / 2 * 4096);
    for (Span* run : runs) EXPECT_EQ(heap_.find(run->base), run);
    std::vector<char*> starts;
    for (Span* run : runs) starts.push_back(run->base);
    Span* stays = round == 1 ? runs[runs.size() / 2] : nullptr;
    for (Span* run : runs)
      if (run != stays) heap_.deallocate(run);
    heap_.release(Nanos::max(), 0);
    EXPECT_TRUE(heap_.is_consistent());
    // Of each chunk of address space the first and the last page may have no neighbour.
    EXPECT_LE(heap_.map_bytes(), size_t{7} * 4096);
    EXPECT_LE(arena_.resident_bytes(), kPages * sizeof(HugePage) + (48 << 10));
    for (char* start : starts)
      EXPECT_EQ(heap_.find(start), stays && start == stays->base ? stays : nullptr);
    if (stays != nullptr) heap_.deallocate(stays);
  }
}

// Else a page that is soon fetched again costs a fault for each small page of its tables.
TEST_F(TablesTest, TablesCanStayWhenTheirPagesGoBack) {
  const int bin = bin_of(PageGroup::unknown, size_class_of(1000), false);
  std::vector<void*> slots;
  const auto fill = [&] {
    while (heap_.pages().in_use() < 20) slots.push_back(heap_.take_one(bin));
  };
  const auto release = [&](Nanos tables) {
    for (void* slot : slots) EXPECT_EQ(heap_.give_one(slot), nullptr);
    slots.clear();
    EXPECT_GE(heap_.release(Nanos::max(), 0, tables), 20u);
    EXPECT_TRUE(heap_.is_consistent());
  };
  fill();
  const size_t map = heap_.map_bytes(), records = arena_.resident_bytes();
  for (int round = 0; round < 2; ++round) {
    release(system_.time - Nanos::millis(1));
    EXPECT_EQ(heap_.map_bytes(), map);
    EXPECT_EQ(arena_.resident_bytes(), records);
    EXPECT_TRUE(heap_.has_empty_pages()) << "something for the worker";
    fill();
    EXPECT_TRUE(heap_.is_consistent());
  }
  EXPECT_FALSE(heap_.pages().has_tables()) << "all pages are in use again";
  release(system_.time - Nanos::millis(1));
  system_.time = system_.time + Nanos::seconds(1);
  EXPECT_EQ(heap_.release(Nanos::max(), 0, system_.time - Nanos::millis(1)), 0u);
  EXPECT_FALSE(heap_.pages().has_tables());
  EXPECT_LT(heap_.map_bytes() + 8 * 4096, map);
  EXPECT_LT(arena_.resident_bytes() + size_t{20} * 8192, records);
  EXPECT_TRUE(heap_.is_consistent());
}

// Threads take pages while others give theirs back: no entry of the map is lost.
TEST_F(TablesTest, PagesComeAndGoWhileTheirNeighboursDo) {
  std::atomic<bool> done{false};
  const auto churn = [&] {
    while (!done.load()) {
      std::vector<Span*> runs;
      for (int i = 0; i < 12; ++i)
        runs.push_back(heap_.allocate(kRunMax, 1, PageGroup::unknown, false));
      for (Span* run : runs) EXPECT_EQ(heap_.find(run->base), run);
      for (Span* run : runs) heap_.deallocate(run);
    }
  };
  std::thread one_thread(churn), another(churn);
  for (int i = 0; i < 3000; ++i) heap_.release(Nanos::max(), 0);
  done = true;
  one_thread.join();
  another.join();
  EXPECT_TRUE(heap_.is_consistent());
}

}  // namespace
}  // namespace llamalloc
