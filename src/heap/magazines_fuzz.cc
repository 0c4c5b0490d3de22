// SPDX-License-Identifier: Apache-2.0
// Magazines of three threads over one heap, by turns, against a list of what is out: no slot is out
// twice, none is lost, the sums hold after every step, and flushed the heap is empty.
//   each step: thread and what, then what that takes
#include "heap/magazines.h"

#include <memory>
#include <unordered_set>
#include <vector>

#include "base/fuzz_input.h"
#include "os/fake/fuzz_pages.h"

namespace llamalloc {
namespace {

constexpr int kThreads = 3;
constexpr size_t kMostLive = 20000;

struct Object {
  char* start;
  uint32_t mark;
};

class Run {
 public:
  Run(FuzzInput input, FuzzPages& system, HeapTables& tables)
      : input_(input), system_(system), arena_(system), heap_(system, arena_, tables) {
    for (auto& cache : caches_) {
      cache = std::make_unique<Magazines>();
      cache->initialise();
    }
  }

  void run() {
    threads_ = 1 + size_t{input_.byte()} * 4;
    while (input_.more()) {
      const uint8_t what = input_.byte();
      Magazines& cache = *caches_[what % kThreads];
      step(cache, what / kThreads);
      CHECK(cache.is_consistent());
    }
    CHECK(heap_.is_consistent());
    system_.calls_left = INT64_MAX;
    while (!live_.empty()) free_last(*caches_[0]);
    for (auto& cache : caches_) {
      CHECK(cache->flush(heap_) == nullptr);
      CHECK_EQ(cache->cached_bytes(), size_t{0});
      CHECK(cache->is_consistent());
    }
    CHECK(heap_.drain_depots() == nullptr);
    for (int g = 0; g < kPageGroups; ++g)
      CHECK_EQ(heap_.count(static_cast<PageGroup>(g)).pages, size_t{0});
  }

 private:
  void step(Magazines& cache, int what) {
    if (what < 35) return allocate_many(cache);
    if (what < 70) return free_many(cache);
    if (what < 78) return check_flush(cache);
    if (what < 81) {
      check_flush(cache);
      return cache.start_over();
    }
    if (what == 81) CHECK(heap_.is_consistent() && heap_.drain_depots() == nullptr);
    if (what == 82) heap_.release(system_.time, input_.byte() % 4);
    if (what >= 83) system_.calls_left = input_.flag() ? INT64_MAX : input_.byte() % 8;
  }

  void check_flush(Magazines& cache) {
    CHECK(cache.flush(heap_) == nullptr);
    CHECK_EQ(cache.cached_bytes(), size_t{0});
  }

  void allocate_many(Magazines& cache) {
    const int bin = static_cast<int>(input_.below(kLocalBins));
    const size_t size = kSizeClassRows[bin % kSizeClasses].size;
    size_t count = 1 + size_t{input_.byte()} * 4;
    if (count * size > size_t{16} << 20) count = 1 + (size_t{16} << 20) / size;
    for (size_t i = 0; i < count && live_.size() < kMostLive; ++i) {
      Magazine& m = cache.bins[bin];
      void* p = m.is_empty() ? cache.refill(heap_, arena_, bin, threads_) : m.pop();
      if (p == nullptr) return;
      CHECK(seen_.insert(p).second);
      CHECK_EQ(heap_.find(p)->bin, bin);
      *static_cast<uint32_t*>(p) = ++mark_;
      live_.push_back({static_cast<char*>(p), mark_});
    }
  }

  void free_many(Magazines& cache) {
    const size_t count = 1 + size_t{input_.byte()} * 4;
    const bool newest = input_.flag();
    for (size_t i = 0; i < count && !live_.empty(); ++i) {
      if (!newest) std::swap(live_[i * 7919 % live_.size()], live_.back());
      free_last(cache);
    }
  }

  void free_last(Magazines& cache) {
    const auto [start, mark] = live_.back();
    live_.pop_back();
    CHECK_EQ(*reinterpret_cast<uint32_t*>(start), mark);
    seen_.erase(start);
    const int bin = heap_.find(start)->local_bin();
    Magazine& m = cache.bins[bin];
    if (m.is_full())
      CHECK(cache.spill(heap_, arena_, bin, start, threads_) == nullptr);
    else
      m.push(start);
  }

  FuzzInput input_;
  FuzzPages& system_;
  MetadataArena arena_;
  Heap heap_;
  std::unique_ptr<Magazines> caches_[kThreads];
  size_t threads_ = 1;
  std::vector<Object> live_;
  std::unordered_set<void*> seen_;
  uint32_t mark_ = 0;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return llamalloc::fuzz_with_table<llamalloc::Run, llamalloc::HeapTables>(data, size);
}
