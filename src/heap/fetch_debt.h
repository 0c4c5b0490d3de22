// SPDX-License-Identifier: Apache-2.0
// What it has cost of late to fetch memory from the system that had gone back to it a moment
// before, less a share of the time since. While more than a little is owed, it is dearer to give
// memory back than to keep it.
//
//   debt = sum of bytes x price, paid off by 1/kShare of the time
//   owed: from kCredit on, until all is paid
//
// policy/hold_time.h has the same share. That rule decides once a second, from how long memory
// waited; this one at each fetch, as buffers of requests come and go a hundred times a second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

class FetchDebt {
 public:
  static constexpr int64_t kShare = 40;
  static constexpr Nanos kCredit = Nanos::millis(20);
  static constexpr Nanos kMost = Nanos::millis(100);
  static constexpr Nanos kPaidWithin = Nanos{kMost.n * kShare};
  static constexpr Nanos kMoment = Nanos::millis(1000);

  // Of 2 MiB.
  void set_price(Nanos price) { price_ = price; }
  void gave_back(size_t bytes, Nanos now);
  // Memory is fetched; what had gone back a moment before is owed.
  void fetched(size_t bytes, Nanos now);
  bool is_owed(Nanos now);

 private:
  void forget_what_is_older(Nanos now);
  void pay(Nanos now);

  Nanos price_{250'000};
  size_t gone_ = 0;  // bytes
  Nanos gone_at_{};
  Nanos paid_{};
  int64_t debt_ = 0;
  bool owed_ = false;
};

}  // namespace llamalloc
