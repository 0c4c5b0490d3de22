// SPDX-License-Identifier: Apache-2.0
// What it has cost of late to fetch memory from the system where as much had gone back to it a
// moment before, less a share of the time since. While more than a little is owed, it is dearer to
// give memory back than to keep it.
//
//   debt = sum of bytes x price, paid off by 1/kShare of the time
//   felt: from kFelt on, until all is paid
//   owed: from kCredit on, until all is paid
//
// release/hold_time.h pays with the same share, of processor time. That rule decides once a second,
// from how long memory waited; this one at each fetch, as buffers of requests come and go a hundred
// times a second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

class FetchDebt {
 public:
  static constexpr int64_t kShare = 40;
  static constexpr Nanos kCredit = Nanos::millis(20);
  static constexpr Nanos kFelt = Nanos::millis(5);
  static constexpr Nanos kMost = Nanos::millis(100);
  static constexpr Nanos kPaidWithin = Nanos{kMost.n * kShare};
  static constexpr Nanos kMoment = Nanos::millis(1000);  // to twice that

  // Of 2 MiB.
  void set_price(Nanos price) { price_ = price; }
  // More is owed elsewhere: felt and owed, whatever is counted here.
  void set_lasts(bool lasts) { lasts_ = lasts; }
  bool lasts() const { return lasts_; }
  void gave_back(size_t bytes, Nanos now);
  // Memory is fetched; what had gone back a moment before is owed.
  void fetched(size_t bytes, Nanos now);
  bool is_owed(Nanos now);
  bool is_felt(Nanos now);

 private:
  void look_at(Nanos now);
  void pay(Nanos now);

  Nanos price_{250'000};
  int64_t moment_ = 0;                 // since the clock began
  size_t gone_ = 0, gone_before_ = 0;  // bytes, in this moment and in the one before
  Nanos paid_{};
  int64_t debt_ = 0;
  bool felt_ = false, owed_ = false, lasts_ = false;
};

}  // namespace llamalloc
