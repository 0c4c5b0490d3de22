// SPDX-License-Identifier: Apache-2.0
#include "pages/demand_series.h"

namespace llamalloc {

void DemandSeries::change_backed(int64_t blocks, Nanos now) {
  change(blocks, 0, now);
}

// One thread at a time: the next one claims a later epoch.
[[gnu::noinline]] void DemandSeries::open(uint32_t epoch, uint64_t word) {
  uint32_t claimed = claimed_.load(std::memory_order_relaxed);
  if (epoch <= claimed ||
      !claimed_.compare_exchange_strong(claimed, epoch, std::memory_order_relaxed))
    return;
  const uint32_t number = head_.load(std::memory_order_relaxed) + 1;
  Entry& next = entry(number);
  next.epoch.store(epoch, std::memory_order_relaxed);
  for (auto* used : {&next.first_used, &next.least_used, &next.most_used})
    used->store(used_of(word), std::memory_order_relaxed);
  for (auto* free : {&next.first_free, &next.least_free, &next.most_free})
    free->store(free_of(word), std::memory_order_relaxed);
  // Pairs with the acquire in change(): who finds the entry finds its first level.
  head_.store(number, std::memory_order_release);
}

// Goes back over the entries; those of quiet seconds are made up.
class DemandSeries::Sum {
 public:
  void add(const Entry& entry) {
    const uint32_t low = entry.least_used.load(std::memory_order_relaxed);
    const uint32_t high = entry.most_used.load(std::memory_order_relaxed);
    add(low, high, entry.least_free.load(std::memory_order_relaxed),
        entry.most_free.load(std::memory_order_relaxed), 1);
  }
  void add_quiet(uint32_t used, uint32_t free, uint32_t seconds) {
    if (seconds > 0) add(used, used, free, free, seconds);
  }
  Range bytes() const {
    Range range = range_;
    for (size_t* blocks : {&range.least_used, &range.most_used, &range.least_free, &range.most_free,
                           &range.most_rise, &range.highest_low})
      *blocks *= kBlockSize;
    if (range.seconds > 0) range.average_free = middles_ * (kBlockSize / 2) / range.seconds;
    return range;
  }

 private:
  void add(uint32_t low, uint32_t high, uint32_t least_free, uint32_t most_free, uint32_t seconds) {
    const bool first = range_.seconds == 0;
    if (first || low < range_.least_used) range_.least_used = low;
    if (high > range_.most_used) range_.most_used = high;
    if (first || least_free < range_.least_free) range_.least_free = least_free;
    if (most_free > range_.most_free) range_.most_free = most_free;
    if (high > low && high - low > range_.most_rise) range_.most_rise = high - low;
    if (low > range_.highest_low) range_.highest_low = low;
    middles_ += (uint64_t{least_free} + most_free) * seconds;
    range_.seconds += seconds;
  }

  Range range_;  // in blocks
  uint64_t middles_ = 0;
};

DemandSeries::Range DemandSeries::range_of(uint32_t first, uint32_t last) const {
  Sum sum;
  const uint64_t word = levels_.load(std::memory_order_relaxed);
  const uint32_t head = head_.load(std::memory_order_acquire);
  uint32_t used = used_of(word), free = free_of(word);  // of the quiet seconds before `end`
  uint32_t end = last + 1;
  for (uint32_t back = 0; back < kEntries - 1 && back < head && end > first; ++back) {
    const Entry& entry = this->entry(head - back);
    const uint32_t epoch = entry.epoch.load(std::memory_order_relaxed);
    if (epoch < end) {
      const uint32_t quiet_from = epoch + 1 > first ? epoch + 1 : first;
      sum.add_quiet(used, free, end - quiet_from);
      if (epoch >= first) sum.add(entry);
      end = epoch;
    }
    used = entry.first_used.load(std::memory_order_relaxed);
    free = entry.first_free.load(std::memory_order_relaxed);
  }
  return sum.bytes();
}

}  // namespace llamalloc
