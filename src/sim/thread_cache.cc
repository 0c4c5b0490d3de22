// SPDX-License-Identifier: Apache-2.0
#include "sim/thread_cache.h"

namespace llamalloc::sim {

char* ThreadCache::take(int bin, size_t threads) {
  if (called_) flush();
  Magazine& magazine = magazines_[bin];
  if (magazine.slots.empty()) return refill(bin, threads);
  void* slot = magazine.slots.back();
  magazine.slots.pop_back();
  held_bytes_ -= size_of(bin);
  return static_cast<char*>(slot);
}

char* ThreadCache::refill(int bin, size_t threads) {
  Magazine& magazine = magazines_[bin];
  magazine.ran_dry = true;
  grow(magazine, size_of(bin), threads);
  if (magazine.capacity() == 0) return static_cast<char*>(heap_.take_one(bin));
  const size_t want = magazine.half();
  magazine.slots.resize(want);
  const size_t got = heap_.take(bin, magazine.slots.data(), want);
  magazine.slots.erase(magazine.slots.begin(),
                       magazine.slots.begin() + static_cast<ptrdiff_t>(want - got));
  if (got == 0) return nullptr;
  void* slot = magazine.slots.back();
  magazine.slots.pop_back();
  held_bytes_ += (got - 1) * size_of(bin);
  return static_cast<char*>(slot);
}

void ThreadCache::put(int bin, char* slot, size_t threads) {
  Magazine& magazine = magazines_[bin];
  if (magazine.slots.size() == magazine.capacity()) spill(bin, threads);
  magazine.slots.push_back(slot);
  held_bytes_ += size_of(bin);
  if (magazine.capacity() == 0) give(bin, 1);
}

void ThreadCache::spill(int bin, size_t threads) {
  Magazine& magazine = magazines_[bin];
  magazine.overflowed = true;
  if (!grow(magazine, size_of(bin), threads) && magazine.capacity() != 0)
    give(bin, magazine.half());
}

bool ThreadCache::grow(Magazine& magazine, uint64_t size, size_t threads) {
  const size_t share = kAllBudgets / (threads ? threads : 1);
  const size_t most = share < kLargestBudget ? share : kLargestBudget;
  if (budget_ < most) budget_ += kBudgetStep;
  const size_t have = magazine.capacity();
  const bool unasked = have * size < kUnaskedBytes && have < kUnaskedSlots;
  if (!unasked && !(magazine.ran_dry && magazine.overflowed)) return false;
  const int log2 = magazine.log2 + 1;
  const size_t bytes = ((size_t{1} << log2) - 1) * size;
  if (log2 > kLog2Max || (log2 > 1 && bytes > kLargestMagazine)) return false;
  const size_t added = bytes - have * size;
  if (capacity_bytes_ + added > budget_) return false;
  capacity_bytes_ += added;
  array_bytes_ += sizeof(void*) << log2;
  magazine.log2 = log2;
  magazine.ran_dry = magazine.overflowed = false;
  return true;
}

// The oldest `count` slots go back.
void ThreadCache::give(int bin, size_t count) {
  std::vector<void*>& slots = magazines_[bin].slots;
  CHECK(heap_.give(bin, slots.data(), count) == nullptr);
  slots.erase(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(count));
  held_bytes_ -= count * size_of(bin);
}

void ThreadCache::flush() {
  called_ = false;
  for (int bin = 0; bin < kLocalBins; ++bin)
    if (!magazines_[bin].slots.empty()) give(bin, magazines_[bin].slots.size());
}

bool ThreadCache::is_consistent() const {
  uint64_t held = 0, capacity = 0;
  for (int bin = 0; bin < kLocalBins; ++bin) {
    const Magazine& magazine = magazines_[bin];
    if (magazine.slots.size() > magazine.capacity()) return false;
    held += magazine.slots.size() * size_of(bin);
    capacity += magazine.capacity() * size_of(bin);
  }
  return held == held_bytes_ && capacity == capacity_bytes_ && capacity <= budget_;
}

}  // namespace llamalloc::sim
