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
    if (what < 30) return allocate_many(cache);
    if (what < 60) return free_many(cache);
    if (what < 66) return check_flush(cache);
    if (what < 69) {
      check_flush(cache);
      return cache.start_over();
    }
    if (what < 76) return use_runs(cache);
    if (what < 79) return earn(cache);
    if (what == 79) CHECK(heap_.is_consistent() && heap_.drain_depots() == nullptr);
    if (what == 80) heap_.release(system_.time, input_.byte() % 4);
    if (what >= 81) system_.calls_left = input_.flag() ? INT64_MAX : input_.byte() % 8;
  }

  // As after many visits to the heap.
  void earn(Magazines& cache) {
    if (cache.shelf == nullptr) cache.shelf = &heap_.next_shelf();
    const size_t most = size_t{input_.byte()} << 16;
    while (cache.shelf->room.load() < most) cache.shelf->earn(most);
  }

  // Some are taken, and each is given back, by this thread or the next.
  void use_runs(Magazines& cache) {
    const Blocks blocks{33 + input_.below(3)};
    const uint32_t alignment = 1u << input_.below(4);
    const auto group = static_cast<PageGroup>(input_.below(kPageGroups));
    Magazines& other = *caches_[input_.below(kThreads)];
    std::vector<Span*> runs(1 + input_.below(6));
    for (Span*& run : runs) {
      run = cache.take_kept_run(heap_, blocks, group, alignment, threads_);
      if (run == nullptr)
        run = heap_.allocate(blocks.bytes(), alignment * kBlockSize, group, false);
      if (run == nullptr) continue;
      CHECK(seen_.insert(run->base).second);
      CHECK(heap_.find(run->base) == run && run->bytes == blocks.bytes());
      CHECK_EQ(reinterpret_cast<uintptr_t>(run->base) % (alignment * kBlockSize), uintptr_t{0});
      if (run->fresh) CHECK_EQ(*run->base, char{0});
      *run->base = 1;
    }
    for (Span* run : runs) {
      if (run == nullptr) continue;
      seen_.erase(run->base);
      char* const base = run->base;
      if (!other.keep_run(heap_, run, threads_)) heap_.deallocate(run);
      CHECK(heap_.find(base) == nullptr);
    }
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
      const int of = heap_.find(p)->bin;  // where there is no memory, what another group has
      CHECK(of == bin || (bin < kSizeClasses && of % kSizeClasses == bin));
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
