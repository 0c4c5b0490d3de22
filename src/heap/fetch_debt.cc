// SPDX-License-Identifier: Apache-2.0
#include "heap/fetch_debt.h"

#include <algorithm>

namespace llamalloc {

void FetchDebt::look_at(Nanos now) {
  const int64_t moment = now.n / kMoment.n;
  if (moment == moment_) return;
  gone_before_ = moment == moment_ + 1 ? gone_ : 0;
  gone_ = 0;
  moment_ = moment;
}

void FetchDebt::gave_back(size_t bytes, Nanos now) {
  look_at(now);
  gone_ += bytes;
}

void FetchDebt::fetched(size_t bytes, Nanos now) {
  look_at(now);
  const size_t again = std::min(bytes, gone_ + gone_before_);
  if (again == 0) return;
  const size_t of_before = std::min(again, gone_before_);
  gone_before_ -= of_before;
  gone_ -= again - of_before;
  pay(now);
  const auto small_pages = static_cast<int64_t>(again / kSmallPage);
  constexpr auto kSmallPerHuge = static_cast<int64_t>(kHugePageSize / kSmallPage);
  debt_ = std::min(debt_ + small_pages * price_.n / kSmallPerHuge, kMost.n);
  if (debt_ > kFelt.n) felt_ = true;
  if (debt_ > kCredit.n) owed_ = true;
}

bool FetchDebt::is_owed(Nanos now) {
  if (owed_) pay(now);
  return owed_ || lasts_;
}

bool FetchDebt::is_felt(Nanos now) {
  if (felt_) pay(now);
  return felt_ || lasts_;
}

// The clock may jump.
void FetchDebt::pay(Nanos now) {
  const int64_t paid = std::max<int64_t>((now - paid_).n, 0) / kShare;
  debt_ = std::max<int64_t>(debt_ - paid, 0);
  paid_ = now;
  if (debt_ == 0) owed_ = felt_ = false;
}

}  // namespace llamalloc
