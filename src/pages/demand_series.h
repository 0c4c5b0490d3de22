// SPDX-License-Identifier: Apache-2.0
// How much memory of the page heap was backed and used over the last minutes: the time series of
// "Adaptive Huge-Page Subrelease for Non-moving Memory Allocators" (ISMM 2021), section 3.3.
//
//   epoch      ... 41          42    43 (quiet)  44
//   entry      [min max]  [min max]              [min max]   used and free, in blocks
//   level      --.    .-----.   .-----------------.   .--    used
//                 \__/       \_/                   \_/
//
// Each second in which something changed has one entry; a quiet second has none, since the level
// stands between two entries. An entry begins with the level that it found. So an update costs the
// same however long nothing happened. The ring holds as many entries as the longest window has
// seconds.
//
// Backed and used are halves of one word: each reader sees a pair that existed. Threads may change
// it at once. Two of them that find a new second at the same moment may put a level into the entry
// before; a process that forks in that moment loses nothing. With one thread the series is exact.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/atomic_extreme.h"
#include "base/units.h"

namespace llamalloc {

class DemandSeries {
 public:
  static constexpr Nanos kEpoch = Nanos::seconds(1);
  static constexpr uint32_t kEntries = 1024;
  static constexpr Nanos kLongestWindow = Nanos::seconds(1000);
  static_assert(kLongestWindow.n / kEpoch.n < kEntries);
  static constexpr Nanos kFragmentationWindow = Nanos::seconds(300);  // the paper's T_schedule

  // Bytes.
  struct Level {
    size_t backed = 0;
    size_t used = 0;
    size_t free() const { return less(backed, used); }
  };
  struct Range {
    size_t least_used = 0, most_used = 0;
    size_t least_free = 0, most_free = 0;  // least_free: realized fragmentation
    size_t average_free = 0;               // mean over the seconds of the middle of least and most
    size_t most_rise = 0;                  // most used less least used within a second, the largest
    size_t highest_low = 0;                // the least used of a second, the largest
    uint32_t seconds = 0;                  // so many were seen: less than the window at first
  };

  // An event of the page heap at `now`: changes in blocks.
  void change(int64_t backed, int64_t used, Nanos now) {
    const uint64_t delta = (static_cast<uint64_t>(backed) << 32) + static_cast<uint64_t>(used);
    const uint64_t before = levels_.fetch_add(delta, std::memory_order_relaxed);
    const uint32_t epoch = epoch_of(now);
    if (epoch > claimed_.load(std::memory_order_relaxed)) open(epoch, before);
    note(entry(head_.load(std::memory_order_acquire)), before + delta);
  }
  // The same of what is backed alone; code that stands once in the library, for who comes seldom.
  void change_backed(int64_t blocks, Nanos now);
  Level level() const { return bytes_of(levels_.load(std::memory_order_relaxed)); }

  // As PageHeap::publish. In blocks: backed in the upper half, used in the lower one.
  template <typename F>
  void publish(F&& f) const {
    f("pages.level", &levels_);
  }

  // Over the seconds that the window touches, the current one included: a window of 60 s looks at
  // 60 epochs. Windows above kLongestWindow are as long as that.
  Range range(Nanos now, Nanos window) const {
    const uint32_t last = epoch_of(now);
    return range_of(last + 1 > epochs_of(window) ? last + 1 - epochs_of(window) : 0, last);
  }
  // Of the epochs from `first` up to `last`; the level that the first one found counts.
  Range range_of(uint32_t first, uint32_t last) const;
  static uint32_t epoch_of(Nanos now) {
    return now.n < 0 ? 0 : static_cast<uint32_t>(now.n / kEpoch.n);
  }
  static uint32_t epochs_of(Nanos window) {
    const int64_t n = window.n / kEpoch.n + (window.n % kEpoch.n > 0);
    constexpr int64_t kMost = kLongestWindow.n / kEpoch.n;
    return static_cast<uint32_t>(n < 1 ? 1 : n > kMost ? kMost : n);
  }

 private:
  // In blocks. Written by the thread that opened it, then raised and lowered by all.
  struct Entry {
    std::atomic<uint32_t> epoch{0};
    std::atomic<uint32_t> first_used{0}, first_free{0};
    std::atomic<uint32_t> least_used{0}, most_used{0};
    std::atomic<uint32_t> least_free{0}, most_free{0};
  };
  class Sum;

  static uint32_t used_of(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint32_t free_of(uint64_t word) {
    const auto backed = static_cast<uint32_t>(word >> 32);
    return backed > used_of(word) ? backed - used_of(word) : 0;
  }
  static Level bytes_of(uint64_t word) {
    return {(word >> 32) * kBlockSize, size_t{used_of(word)} * kBlockSize};
  }
  Entry& entry(uint32_t number) { return entries_[number % kEntries]; }
  const Entry& entry(uint32_t number) const { return entries_[number % kEntries]; }
  static void note(Entry& entry, uint64_t word) {
    raise(entry.most_used, used_of(word));
    lower(entry.least_used, used_of(word));
    raise(entry.most_free, free_of(word));
    lower(entry.least_free, free_of(word));
  }
  void open(uint32_t epoch, uint64_t word);

  std::atomic<uint64_t> levels_{0};   // [ backed | used ], in blocks
  std::atomic<uint32_t> claimed_{0};  // the latest epoch that somebody opens or opened
  std::atomic<uint32_t> head_{0};     // number of the latest entry
  Entry entries_[kEntries];
};

}  // namespace llamalloc
