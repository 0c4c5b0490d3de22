// SPDX-License-Identifier: Apache-2.0
// The most memory that the heap had of late. Growth beyond it is new to the system: then what is
// free elsewhere goes back first. Below it nothing is gained by that.
//
//   epochs    |  before  |  this one  |      value() = the higher peak of the two
#pragma once

#include <atomic>
#include <cstddef>

#include "base/atomic_extreme.h"

namespace llamalloc {

class RecentPeak {
 public:
  size_t value() const {
    const size_t before = before_.load(std::memory_order_relaxed);
    const size_t now = now_.load(std::memory_order_relaxed);
    return before > now ? before : now;
  }
  void raise(size_t level) { llamalloc::raise(now_, level); }
  // A new epoch begins, at this level. One caller at a time.
  void next(size_t level) {
    before_.store(now_.exchange(level, std::memory_order_relaxed), std::memory_order_relaxed);
  }

 private:
  std::atomic<size_t> before_{0};
  std::atomic<size_t> now_{0};
};

}  // namespace llamalloc
