// SPDX-License-Identifier: Apache-2.0
// What a thread holds of the heap in a simulation: the rules of runtime/thread_cache.h (magazines
// that double as long as they are needed, within a budget) without its place in a process.
//
//   take: pop; a magazine that ran dry takes half its capacity from the heap
//   put: push; a magazine that is full gives its older half back
//
// Invariants: held_bytes is the sum of the slot sizes held; no magazine holds more than its
// capacity; the capacities in bytes stay within the budget that they grew under.
#pragma once

#include <vector>

#include "heap/heap.h"

namespace llamalloc::sim {

class ThreadCache {
 public:
  explicit ThreadCache(Heap& heap) : heap_(heap) {}

  // A slot of the bin; null: no memory. threads: how many share the budgets.
  char* take(int bin, size_t threads);
  void put(int bin, char* slot, size_t threads);
  // Everything goes back to the heap with the thread's next allocation.
  void call_in() { called_ = true; }
  void flush();

  uint64_t held_bytes() const { return held_bytes_; }
  uint64_t table_bytes() const { return kTableBytes + array_bytes_; }
  bool is_consistent() const;

 private:
  static constexpr int kLog2Max = 11;
  static constexpr size_t kFirstBudget = size_t{8} << 10;
  static constexpr size_t kBudgetStep = 64;
  static constexpr size_t kLargestBudget = size_t{1} << 20;
  static constexpr size_t kAllBudgets = size_t{32} << 20;
  static constexpr size_t kUnaskedBytes = 4096;
  static constexpr size_t kUnaskedSlots = 64;
  static constexpr size_t kLargestMagazine = size_t{128} << 10;
  static constexpr uint64_t kTableBytes = 32 * kLocalBins;

  struct Magazine {
    std::vector<void*> slots;
    int log2 = 0;
    bool ran_dry = false;
    bool overflowed = false;
    size_t capacity() const { return log2 == 0 ? 0 : (size_t{1} << log2) - 1; }
    size_t half() const { return (capacity() + 1) / 2; }
  };
  static uint64_t size_of(int bin) { return kSizeClassRows[bin % kSizeClasses].size; }
  char* refill(int bin, size_t threads);
  void spill(int bin, size_t threads);
  bool grow(Magazine& magazine, uint64_t size, size_t threads);
  void give(int bin, size_t count);

  Heap& heap_;
  Magazine magazines_[kLocalBins];
  bool called_ = false;
  size_t budget_ = kFirstBudget;
  size_t capacity_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  uint64_t array_bytes_ = 0;
};

}  // namespace llamalloc::sim
