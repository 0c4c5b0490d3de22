// SPDX-License-Identifier: Apache-2.0
// What the demand series costs those who take and give blocks: page_heap_bench.
//
//   pair      blocks are taken and given back, while others of their page are in use: no system
//             call
//   series    the two updates of the demand series in it
//   counter   two additions to an atomic: without the series, used blocks would still be counted
//   clock     one reading of the coarse clock. Giving blocks needs it only for the series; what
//             takes them needs it anyway
//
// So a pair takes at most series - counter + clock more than it would without the series: the
// processor does much of that while it waits for something else. The rows take turns, and a round
// is shorter than a time slice, so that a busy machine does not move the median.
#include "pages/page_heap.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace llamalloc {
namespace {

constexpr int kRounds = 101;
constexpr int kPairs = 20'000;
constexpr Blocks kFew{4};

// Nanoseconds a call, by round.
struct Row {
  const char* name;
  double times[kRounds];
  void print() {
    std::sort(times, times + kRounds);
    printf("%-28s %7.2f %7.2f\n", name, times[kRounds / 2], times[kRounds - 1]);
  }
};

template <typename Call>
double time_of(Call call) {
  const Nanos start = system_pages.now();
  for (int i = 0; i < kPairs; ++i) call();
  return static_cast<double>((system_pages.now() - start).n) / kPairs;
}

MetadataArena arena(system_pages);
NoPageTables tables;
PageSets sets;
PageHeap heap(system_pages, arena, tables, sets);
DemandSeries demand;
std::atomic<uint64_t> used_blocks{0};

void take_and_give() {
  const PageHeap::Place place = heap.take(PageGroup::unknown, kFew, 1);
  heap.give(place.page, place.start(), kFew);
}

void count_used() {
  used_blocks.fetch_add(kFew.n, std::memory_order_relaxed);
  used_blocks.fetch_sub(kFew.n, std::memory_order_relaxed);
}

// Its time moves, so that the second is computed for each update, as there.
double time_of_series() {
  return time_of([now = system_pages.now_coarse()]() mutable {
    demand.change(0, kFew.n, now);
    demand.change(0, -int64_t{kFew.n}, now);
    now.n += 100;
  });
}

int main() {
  CHECK(heap.take(PageGroup::unknown, kFew, 1).page != nullptr);
  demand.change(kBlocksPerHugePage, kFew.n, system_pages.now_coarse());
  Row pair{"take and give", {}}, series{"  series, 2 updates", {}};
  Row counter{"  counter, 2 additions", {}}, clock{"  clock, 1 reading", {}};
  Row more{"more by the series, at most", {}}, each{"  the same for one operation", {}};
  for (int i = 0; i < kRounds; ++i) {
    pair.times[i] = time_of(take_and_give);
    series.times[i] = time_of_series();
    counter.times[i] = time_of(count_used);
    clock.times[i] = time_of([] { system_pages.now_coarse(); });
    more.times[i] = series.times[i] - counter.times[i] + clock.times[i];
    each.times[i] = more.times[i] / 2;
  }
  CHECK_EQ(heap.acquired(), size_t{1});
  printf("%d rounds of %d; nanoseconds, median and worst\n", kRounds, kPairs);
  for (Row* row : {&pair, &series, &counter, &clock, &more, &each}) row->print();
  return 0;
}

}  // namespace
}  // namespace llamalloc

int main() {
  return llamalloc::main();
}
