// SPDX-License-Identifier: Apache-2.0
// Heap against a map of what is out: all operations in any order, with a clock that is set and
// system calls that fail on order. No overlap, right alignment, contents kept, what is called fresh
// reads as zero, a slot given twice is found; is_consistent() after every step; at the end, all
// given back, no page is in use.
//   each step: one byte for what, then what that takes
#include "heap/heap.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/fuzz_input.h"
#include "os/fake/fuzz_pages.h"

namespace llamalloc {
namespace {

constexpr PageGroup kGroups[] = {PageGroup::unknown, PageGroup::transient, PageGroup::brief,
                                 PageGroup::session, PageGroup::permanent};
constexpr size_t kMostLive = 600;

struct Object {
  size_t bytes;
  char mark;
  Span* span;  // of a run or direct mapping; null: a slot
};

class Run {
 public:
  Run(FuzzInput input, FuzzPages& system, HeapTables& tables)
      : input_(input), system_(system), arena_(system), heap_(system, arena_, tables) {}

  void run() {
    heap_.pages().use_huge_pages(input_.flag());
    heap_.pages().share_pages_below(input_.byte() % 32);
    while (input_.more()) {
      step();
      CHECK(heap_.is_consistent());
    }
    system_.calls_left = INT64_MAX;
    while (!live_.empty()) give_back(live_.begin());
    CHECK(heap_.drain_depots() == nullptr);
    heap_.release(Nanos::max(), 0);
    CHECK(heap_.is_consistent());
    for (PageGroup group : kGroups) CHECK_EQ(heap_.count(group).pages, size_t{0});
    CHECK_EQ(heap_.direct().bytes(), size_t{0});
    CHECK_EQ(heap_.pages().in_use(), size_t{0});
  }

 private:
  using Live = std::map<char*, Object>;

  void step() {
    const uint8_t what = input_.byte();
    if (what < 90) return take();
    if (what < 130) return give();
    if (what < 165) return allocate();
    if (what < 200) return give_one(pick());
    if (what < 220) return resize();
    if (what < 225) return give_twice();
    if (what < 250) return manage(what % 5);
    system_.calls_left = what < 253 ? INT64_MAX : input_.byte() % 8;
    system_.refuse_unmap = what == 253;
  }

  PageGroup group() { return kGroups[input_.below(5)]; }

  void add(char* start, const Object& object, size_t alignment) {
    CHECK_EQ(reinterpret_cast<uintptr_t>(start) % alignment, uintptr_t{0});
    const auto next = live_.lower_bound(start);
    CHECK(next == live_.end() || start + object.bytes <= next->first);
    CHECK(next == live_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= start);
    live_[start] = object;
    write(start, object);
  }
  static void write(char* start, const Object& object) {
    start[0] = start[object.bytes / 2] = start[object.bytes - 1] = object.mark;
  }
  static void verify(const char* start, const Object& object) {
    CHECK_EQ(start[0], object.mark);
    CHECK_EQ(start[object.bytes / 2], object.mark);
    CHECK_EQ(start[object.bytes - 1], object.mark);
  }

  Live::iterator pick() {
    if (live_.empty()) return live_.end();
    return std::next(live_.begin(), input_.below(static_cast<uint32_t>(live_.size())));
  }

  void take() {
    const int size_class = static_cast<int>(input_.below(kSizeClasses));
    const int bin = bin_of(group(), size_class, input_.byte() % 8 == 0);
    void* slots[64];
    const size_t n = 1 + input_.below(64);
    if (live_.size() + n > kMostLive) return;
    const bool in_order = heap_.depot_bytes() == 0;
    const int shard = bin < kLocalBins ? static_cast<int>(input_.below(4)) : 0;
    const size_t got = heap_.take(bin, slots, n, shard);
    CHECK_LE(got, n);
    for (size_t i = n - got; i < n; ++i) {
      CHECK(!in_order || i == n - got || slots[i] < slots[i - 1]);  // the lowest last
      char* start = static_cast<char*>(slots[i]);
      const Span* span = heap_.find(start);
      CHECK(span != nullptr && span->bin == bin && span->starts_object(start));
      add(start, {kSizeClassRows[size_class].size, ++mark_, nullptr}, 16);
    }
  }

  // Some slots of one bin in one call, as a magazine that overflows does; local ones to a depot.
  void give() {
    const auto first = pick();
    if (first == live_.end() || first->second.span != nullptr) return give_one(first);
    const int bin = heap_.find(first->first)->bin;
    const size_t most = 1 + input_.below(64);
    std::vector<void*> slots;
    for (auto it = first; it != live_.end() && slots.size() < most;) {
      const bool same = it->second.span == nullptr && heap_.find(it->first)->bin == bin;
      if (!same || input_.byte() % 4 == 3) {
        ++it;
        continue;
      }
      verify(it->first, it->second);
      slots.push_back(it->first);
      it = live_.erase(it);
    }
    if (slots.empty()) return;
    if (input_.flag()) std::reverse(slots.begin(), slots.end());
    const bool to_depot = bin < kLocalBins && input_.flag();
    void* twice = to_depot ? heap_.deposit(bin, slots.data(), slots.size())
                           : heap_.give(bin, slots.data(), slots.size());
    CHECK(twice == nullptr);
  }

  void give_twice() {
    const auto it = pick();
    if (it == live_.end() || it->second.span != nullptr) return;
    void* both[] = {it->first, it->first};
    const int bin = heap_.find(it->first)->bin;
    live_.erase(it);
    CHECK(heap_.give(bin, both, 2) == both[0]);
  }

  void give_one(Live::iterator it) {
    if (it != live_.end()) give_back(it);
  }
  void give_back(Live::iterator it) {
    const auto [start, object] = *it;
    verify(start, object);
    live_.erase(it);
    if (object.span == nullptr) {
      CHECK(heap_.give_one(start) == nullptr);
    } else {
      heap_.deallocate(object.span);
      CHECK(heap_.find(start) == nullptr);
    }
  }

  void allocate() {
    size_t bytes = input_.size(24) + (input_.flag() ? kSmallMax : 0);
    if (bytes % 8 == 7) bytes = kHugePageSize - bytes % kSmallPage;  // what fills a huge page
    const size_t alignment = size_t{1} << input_.below(27);
    if (bytes <= kSmallMax && alignment <= kBlockSize) return;  // slots serve those
    if (live_.size() >= kMostLive) return;
    const bool grows = alignment == 1 && bytes > kLeastGrowing;
    Span* span = grows ? heap_.allocate_growing(bytes, group())
                       : heap_.allocate(bytes, alignment, group(), input_.byte() % 8 == 0);
    if (span == nullptr) return;
    CHECK_LE(bytes, span->bytes);
    CHECK(heap_.find(span->base) == span && span->starts_object(span->base));
    for (size_t at = span->used_bytes(); at < bytes; at += 4096) CHECK_EQ(span->base[at], 0);
    add(span->base, {span->bytes, ++mark_, span}, alignment < 16 ? 16 : alignment);
  }

  void resize() {
    const auto it = pick();
    const size_t bytes = input_.size(25);
    if (it == live_.end() || it->second.span == nullptr) return;
    auto [start, object] = *it;
    verify(start, object);
    char* moved = static_cast<char*>(heap_.resize(object.span, bytes));
    if (moved == nullptr) return verify(start, object);
    live_.erase(it);
    CHECK(object.span->base == moved && heap_.find(moved) == object.span);
    CHECK_LE(bytes, object.span->bytes);
    CHECK_EQ(moved[0], object.mark);
    if (object.span->bytes >= object.bytes) verify(moved, object);
    object.bytes = object.span->bytes;
    add(moved, object, 16);
  }

  void manage(int what) {
    const uint8_t number = input_.byte();
    if (what == 0) system_.time = system_.time + Nanos::millis(number * 20);
    if (what == 1 && number % 2 == 0) heap_.pages().promote_expired(system_.time);
    if (what == 1 && number % 2 == 1)
      heap_.pages().break_idle(system_.time - Nanos::millis(number));
    const Nanos before = system_.time - Nanos::millis(number);
    if (what == 2) heap_.release(before, number % 4, before - Nanos::millis(number));
    if (what == 3) heap_.direct().release(system_.time - Nanos::millis(number));
    if (what == 4 && number % 2 == 0) heap_.pages().collapse_first_pages();
    if (what == 4 && number % 2 == 1) CHECK(heap_.drain_depots() == nullptr);
  }

  FuzzInput input_;
  FuzzPages& system_;
  MetadataArena arena_;
  Heap heap_;
  Live live_;
  char mark_ = 0;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return llamalloc::fuzz_with_table<llamalloc::Run, llamalloc::HeapTables>(data, size);
}
