// SPDX-License-Identifier: Apache-2.0
// The most and the least of what several threads saw.
#pragma once

#include <atomic>

namespace llamalloc {

// Afterwards `most` is at least `value`. Returns what it is then, as far as this thread knows.
template <typename T>
T raise(std::atomic<T>& most, T value) {
  T before = most.load(std::memory_order_relaxed);
  while (before < value && !most.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before < value ? value : before;
}

// The same for the least.
template <typename T>
T lower(std::atomic<T>& least, T value) {
  T before = least.load(std::memory_order_relaxed);
  while (before > value && !least.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before > value ? value : before;
}

}  // namespace llamalloc
