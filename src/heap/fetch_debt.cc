// SPDX-License-Identifier: Apache-2.0
#include "heap/fetch_debt.h"

#include <algorithm>

namespace llamalloc {

void FetchDebt::forget_what_is_older(Nanos now) {
  if (now - gone_at_ > kMoment) gone_ = 0;
}

void FetchDebt::gave_back(size_t bytes, Nanos now) {
  forget_what_is_older(now);
  gone_ += bytes;
  gone_at_ = now;
}

void FetchDebt::fetched(size_t bytes, Nanos now) {
  forget_what_is_older(now);
  const size_t again = std::min(bytes, gone_);
  if (again == 0) return;
  gone_ -= again;
  pay(now);
  const auto small_pages = static_cast<int64_t>(again / kSmallPage);
  constexpr auto kSmallPerHuge = static_cast<int64_t>(kHugePageSize / kSmallPage);
  debt_ = std::min(debt_ + small_pages * price_.n / kSmallPerHuge, kMost.n);
  if (debt_ > kCredit.n) owed_ = true;
}

bool FetchDebt::is_owed(Nanos now) {
  if (owed_) pay(now);
  return owed_;
}

// The clock of a forked child begins anew.
void FetchDebt::pay(Nanos now) {
  const int64_t paid = std::max<int64_t>((now - paid_).n, 0) / kShare;
  debt_ = std::max<int64_t>(debt_ - paid, 0);
  paid_ = now;
  if (debt_ == 0) owed_ = false;
}

}  // namespace llamalloc
