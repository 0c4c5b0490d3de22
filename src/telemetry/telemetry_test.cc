// SPDX-License-Identifier: Apache-2.0
#include "telemetry/telemetry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "heap/test_thread.h"
#include "os/fake/fake_pages.h"
#include "telemetry/glibc_xml.h"
#include "telemetry/stats_json.h"
#include "telemetry/test_telemetry.h"

namespace llamalloc {
namespace {

class StringSink final : public ByteSink {
 public:
  bool write(const void* data, size_t bytes) override {
    text.append(static_cast<const char*>(data), bytes);
    return true;
  }
  std::string text;
};

std::string json(ProcessSnapshot* snapshot) {
  StringSink sink;
  write_stats_json(snapshot, sink);
  return sink.text;
}

using TelemetryTest = TelemetryOn<FakePages>;
using TelemetryThreads = TelemetryOn<SystemPages>;

// Without a walk, from counters that are kept anyway.
TEST_F(TelemetryTest, TheQuickFiguresAreTheSame) {
  void* slots[300];
  for (const size_t size : {size_t{16}, size_t{1024}, size_t{9000}})
    for (const PageGroup group : {PageGroup::brief, PageGroup::permanent})
      ASSERT_GT(heap_.take(bin_of(group, size_class_of(size), false), slots, 300), 0u);
  const Figures slots_slow = telemetry_.figures(3), slots_quick = telemetry_.quick_figures(3);
  heap_.allocate(600'000, 1, PageGroup::session, false);  // in no slot
  heap_.allocate(5 << 20, 1, PageGroup::unknown, false);
  counters_.add(Stat::demotions, 7);
  system_.time = system_.time + Nanos::seconds(31);  // metadata is asked for again
  const Figures slow = telemetry_.figures(3), quick = telemetry_.quick_figures(3);
  for (int i = 0; i < kStats; ++i) EXPECT_EQ(quick.stats[i], slow.stats[i]) << kStatRows[i].name;
  EXPECT_GE(quick.stat(Stat::mapped), quick.stat(Stat::resident));
  EXPECT_GE(quick.stat(Stat::resident), quick.stat(Stat::active));
  size_t sums[4] = {};  // groups may share pages: the walk counts by page, the bins by span
  for (int g = 0; g < kPageGroups; ++g) {
    EXPECT_EQ(quick.groups[g].pages, slow.groups[g].pages);
    sums[0] += slots_quick.groups[g].allocated;
    sums[1] += slots_slow.groups[g].allocated;
    sums[2] += slots_quick.groups[g].free_slots;
    sums[3] += slots_slow.groups[g].free_slots;
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[2], sums[3]);
}

TEST_F(TelemetryTest, CountsWhatTheHeapHolds) {
  const Figures before = telemetry_.figures(3);
  EXPECT_EQ(before.allocated, 0u);
  EXPECT_EQ(before.stat(Stat::thread_caches), 3u);
  void* slots[3];
  const int bin = bin_of(PageGroup::brief, size_class_of(1024), false);
  ASSERT_EQ(heap_.take(bin, slots, 3), 3u);
  heap_.allocate(600'000, 1, PageGroup::session, false);
  heap_.allocate(5 << 20, 1, PageGroup::unknown, false);
  counters_.add(Stat::demotions, 7);
  const Figures after = telemetry_.figures(3);
  const size_t run = Blocks::covering(600'000).bytes();
  EXPECT_EQ(after.allocated, 3 * 1024 + run);
  EXPECT_EQ(after.direct_bytes, size_t{5} << 20);
  EXPECT_EQ(after.stat(Stat::allocated), after.allocated + after.direct_bytes);
  EXPECT_EQ(after.groups[static_cast<int>(PageGroup::session)].allocated, run);
  EXPECT_EQ(after.stat(Stat::demotions), 7u);
  EXPECT_EQ(after.free_slots, after.free_slots_of[size_class_of(1024)]);
  EXPECT_GE(after.peak_backed, after.pages_backed);
}

// Only blocks that were used have memory.
TEST_F(TelemetryTest, AnEmptyPageOnSmallPagesCountsByItsBlocks) {
  heap_.pages().grant_huge_pages(false);
  const PageHeap::Place place = heap_.pages().take(PageGroup::unknown, {3}, 1);
  heap_.pages().give(place.page, place.start(), {3});
  for (const Figures& figures : {telemetry_.figures(3), telemetry_.quick_figures(3)}) {
    EXPECT_EQ(figures.stat(Stat::huge_pages_empty), 1u);
    EXPECT_EQ(figures.stat(Stat::backed), 3 * kBlockSize);
    EXPECT_EQ(figures.pages_backed, 3 * kBlockSize);
    EXPECT_EQ(figures.releasable, 3 * kBlockSize);
  }
}

TEST_F(TelemetryTest, ASnapshotIsReusedAndLeavesNoRows) {
  std::vector<void*> slots(100'000);
  ASSERT_GT(heap_.take(bin_of(PageGroup::unknown, 0, false), slots.data(), 1), 0u);
  for (void*& slot : slots) slot = heap_.take_one(bin_of(PageGroup::unknown, 9, false));
  ProcessSnapshot* first = telemetry_.take({});
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->is_consistent());
  EXPECT_GT(first->page_count, 1u);
  ProcessSnapshot* second = telemetry_.take({});
  EXPECT_NE(second, first);
  telemetry_.give(first);
  EXPECT_EQ(system_.resident(first->pages, sizeof(first->pages)), 0u);
  EXPECT_EQ(telemetry_.take({}), first);
  telemetry_.give(first);
  telemetry_.give(second);
}

TEST_F(TelemetryTest, SaysWithoutMemoryThatThereIsNone) {
  system_.calls_left = 0;
  EXPECT_EQ(telemetry_.take({}), nullptr);
}

// Pages are promoted, emptied and given back meanwhile.
TEST_F(TelemetryThreads, PartsAgreeWhileThreadsAllocate) {
  std::atomic<bool> over{false};
  const auto churn = [&](unsigned seed) {
    TestThread thread(heap_, arena_, 3);
    std::mt19937 random(seed);
    std::vector<char*> slots(2000);
    std::vector<Span*> spans(20);
    while (!over) {
      char*& slot = slots[random() % slots.size()];
      if (slot != nullptr) thread.deallocate(slot);
      const auto group = static_cast<PageGroup>(random() % kPageGroups);
      slot = thread.allocate(bin_of(group, static_cast<int>(random() % 60), false));
      Span*& span = spans[random() % spans.size()];
      if (span != nullptr) heap_.deallocate(span);
      span = heap_.allocate(300'000 + random() % 1'000'000, 1, group, false);
    }
    thread.flush();
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) threads.emplace_back(churn, seed);
  threads.emplace_back([&] {
    while (!over) {
      heap_.pages().promote_expired(Nanos::max());
      heap_.release(Nanos::max(), 0);
      heap_.pages().break_idle(Nanos::max());
    }
  });
  for (int i = 0; i < 300; ++i) {
    ProcessSnapshot* snapshot = telemetry_.take({});
    ASSERT_NE(snapshot, nullptr);
    EXPECT_TRUE(snapshot->is_consistent()) << i;
    const Figures& figures = snapshot->figures;
    EXPECT_EQ(figures.stat(Stat::huge_pages_used), snapshot->page_count);
    EXPECT_EQ(std::accumulate(std::begin(figures.free_slots_of), std::end(figures.free_slots_of),
                              size_t{0}),
              figures.free_slots);
    telemetry_.give(snapshot);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TelemetryTest, TheDocumentHasAllParts) {
  heap_.take_one(bin_of(PageGroup::brief, size_class_of(64), false));
  ProcessSnapshot* snapshot = telemetry_.take({.command = "a \"b\"\n", .pid = 7, .model = "none"});
  const std::string text = json(snapshot);
  telemetry_.give(snapshot);
  EXPECT_EQ(text.find("{\"version\": 1, \"pid\": 7, \"command\": \"a \\\"b\\\"?\""), 0u) << text;
  for (const char* part : {"\"stats\": {", "\"tags\": []", "\"predicted\": {", "\"groups\": [",
                           "\"pages_left_out\": 0", "\"spans\": [{\"size\": 64, \"objects\": 1"})
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
  EXPECT_EQ(text.substr(text.size() - 3), "]}\n");
}

// The longest piece: a page with objects of every size.
TEST_F(TelemetryTest, NoPieceIsCutOrEmpty) {
  for (int c = 0; c < kSizeClasses; ++c) heap_.take_one(bin_of(PageGroup::unknown, c, false));
  heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  const std::string command(255, '"'), model(511, '"');
  ProcessSnapshot* snapshot = telemetry_.take({.command = command.c_str(), .model = model.c_str()});
  for (int c = 0; c <= kSizeClasses; ++c)  // all in the first page, and as wide as can be
    snapshot->slots[c] = {static_cast<uint64_t>(c), (1u << 28) - 1, (1u << 28) - 1};
  snapshot->pages[0].slots_end = kSizeClasses + 1;
  snapshot->page_count = 1;
  for (uint64_t& stat : snapshot->figures.stats) stat = UINT64_MAX;
  snapshot->tag_count = 3;  // no sample has them: an empty piece would mean to wait
  StatsJson document(*snapshot);
  Text piece;
  for (bool more = true; more;) {
    piece.clear();
    more = document.add_next(&piece);
    EXPECT_LT(piece.size() + 1, Text::kRoom);
    EXPECT_GT(piece.size(), 0u);
  }
  telemetry_.give(snapshot);
}

TEST_F(TelemetryTest, XmlComesFromTheSameFigures) {
  heap_.take_one(bin_of(PageGroup::brief, size_class_of(64), false));
  const Figures figures = telemetry_.figures(0);
  StringSink sink;
  EXPECT_TRUE(write_glibc_xml(figures, sink));
  const std::string rest =
      "<total type=\"rest\" count=\"" + std::to_string(figures.free_slots) + '"';
  EXPECT_NE(sink.text.find(rest), std::string::npos) << sink.text;
}

}  // namespace
}  // namespace llamalloc
